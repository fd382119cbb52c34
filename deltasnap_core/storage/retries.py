"""Retries requests to a remote storage after temporary failures: throttling, timeouts, broken connections."""

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

_TRANSIENT_ERRNOS = {
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
_TRANSIENT_HTTP_STATUSES = {408, 429, 500, 502, 503, 504}
# Exceptions of the HTTP clients that fsspec uses. They are matched by name, because the clients are not imported here.
_TRANSIENT_NAMES = {
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
    """Return the result of `work`, tried up to ATTEMPTS times, with a pause that doubles.

    work: must be safe to run twice. Errors: those of `work`; an error that is not temporary is not retried.
    """
    for attempt in range(ATTEMPTS - 1):
        try:
            return work()
        except Exception as error:
            if not is_transient(error):
                raise
            # Jitter, so that clients that failed together do not retry together.
            seconds = FIRST_PAUSE_SECONDS * 2**attempt * random.uniform(0.75, 1.25)
            _log.info("The storage failed (%s: %s). Retrying in %.1f s", type(error).__name__, error, seconds)
            pause(seconds)
    return work()


def is_transient(error: BaseException) -> bool:
    """Return whether an error of a remote storage is temporary."""
    if isinstance(error, FileNotFoundError | PermissionError | FileExistsError | NotADirectoryError):
        return False
    if isinstance(error, TimeoutError | ConnectionError):
        return True
    if isinstance(error, OSError) and error.errno in _TRANSIENT_ERRNOS:
        return True
    if _http_status(error) in _TRANSIENT_HTTP_STATUSES:
        return True
    return any(kind.__name__ in _TRANSIENT_NAMES for kind in type(error).__mro__)


def _http_status(error: BaseException) -> int | None:
    for name in ("status_code", "status", "code"):  # adlfs, aiohttp, gcsfs
        value = getattr(error, name, None)
        if isinstance(value, int):
            return value
    return None
