"""Another try for what a remote storage refuses for a moment: throttling, timeouts, connections that break."""

from __future__ import annotations

import errno
import random
import time
from collections.abc import Callable
from typing import TypeVar

from deltasnap_core.redaction import logger_of

T = TypeVar("T")

_log = logger_of(__name__)

ATTEMPTS = 5
FIRST_PAUSE_SECONDS = 0.2

_PASSING_ERRNOS = {
    errno.EAGAIN,
    errno.EBUSY,  # s3fs: SlowDown, ServiceUnavailable
    errno.ETIMEDOUT,
    errno.ECONNRESET,
    errno.ECONNABORTED,
    errno.ECONNREFUSED,
    errno.EPIPE,
    errno.ENETUNREACH,
    errno.EHOSTUNREACH,
    getattr(errno, "EREMOTEIO", errno.EIO),  # s3fs: InternalError
}
_PASSING_HTTP_STATUSES = {408, 429, 500, 502, 503, 504}
# Of the HTTP clients below fsspec, which are not imported here.
_PASSING_NAMES = {
    "ClientConnectionError",
    "ClientPayloadError",
    "ConnectionClosedError",
    "EndpointConnectionError",
    "HTTPClientError",
    "IncompleteRead",
    "ResponseParserError",
    "ServerDisconnectedError",
    "ServiceRequestError",
    "ServiceResponseError",
}


def retrying(work: Callable[[], T], *, pause: Callable[[float], None] = time.sleep) -> T:
    """Return what some work on a remote storage returns, tried up to ATTEMPTS times, with a pause that doubles.

    work: may be done twice without harm. Errors: those of the work; one that does not pass is not retried.
    """
    for attempt in range(ATTEMPTS - 1):
        try:
            return work()
        except Exception as error:
            if not is_passing(error):
                raise
            # Some of it by chance: those who were refused together do not come back together.
            seconds = FIRST_PAUSE_SECONDS * 2**attempt * random.uniform(0.75, 1.25)
            _log.info("The storage refused (%s: %s): another try in %.1f s", type(error).__name__, error, seconds)
            pause(seconds)
    return work()


def is_passing(error: BaseException) -> bool:
    """Return whether an error of a remote storage is one that may be over a moment later."""
    if isinstance(error, FileNotFoundError | PermissionError | FileExistsError | NotADirectoryError):
        return False
    if isinstance(error, TimeoutError | ConnectionError):
        return True
    if isinstance(error, OSError) and error.errno in _PASSING_ERRNOS:
        return True
    if _http_status(error) in _PASSING_HTTP_STATUSES:
        return True
    return any(kind.__name__ in _PASSING_NAMES for kind in type(error).__mro__)


def _http_status(error: BaseException) -> int | None:
    for name in ("status_code", "status", "code"):  # adlfs, aiohttp, gcsfs
        value = getattr(error, name, None)
        if isinstance(value, int):
            return value
    return None
