"""Retries requests to a remote storage after temporary failures: throttling, timeouts, broken connections, damage."""

from __future__ import annotations

import errno
import itertools
import logging
import random
import time
from collections.abc import Callable
from typing import Any, TypeVar

from deltasnap_core.redaction import logger_of

T = TypeVar("T")

_log = logger_of(__name__)

ATTEMPTS = 5
"""The maximum number of attempts if the storage cannot be reached. Throttled requests have more."""
FIRST_PAUSE_SECONDS = 0.2
PATIENCE_SECONDS = 20
"""No third or later attempt starts after this. A poll makes several requests, and Dagster gives it a minute."""
_SILENT_SECONDS = 1

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
_THROTTLED_HTTP_STATUSES = {429, 503}
_TRANSIENT_HTTP_STATUSES = {408, 429, 500, 502, 503, 504}
_DAMAGED_UPLOADS = {"BadDigest", "XAmzContentSHA256Mismatch"}
"""The codes of S3 for content that was damaged on its way to the server. Their HTTP status is 400."""
# Exceptions of the HTTP clients that fsspec uses. They are matched by name, because the clients are not imported here.
_TRANSIENT_NAMES = {
    "ClientConnectionError",
    "ClientPayloadError",
    "ConnectionClosedError",
    "EndpointConnectionError",
    "FlexibleChecksumError",  # botocore: a body that was damaged in transit
    "HTTPClientError",
    "IncompleteRead",
    "ResponseParserError",
    "ServerDisconnectedError",
    "ServiceRequestError",
    "ServiceResponseError",
}


def retrying(work: Callable[[], T], *, pause: Callable[[float], None] = time.sleep) -> T:
    """Return the result of `work`, retried after temporary errors, with a pause that doubles, for PATIENCE_SECONDS.

    Logs a warning once if the retries take longer than a second.
    work: must be safe to run twice. Errors: those of `work`; an error that is not temporary is not retried.
    """
    start, has_warned = time.monotonic(), False
    for attempt in itertools.count(1):
        try:
            return work()
        except Exception as error:
            # Jitter, so that clients that failed together do not retry together.
            seconds = FIRST_PAUSE_SECONDS * 2 ** (attempt - 1) * random.uniform(0.75, 1.25)
            after = time.monotonic() - start + seconds
            # A second attempt always: the first may be the download of a large file.
            is_last = attempt > 1 and (after > PATIENCE_SECONDS or (attempt >= ATTEMPTS and not _is_throttled(error)))
            if is_last or not is_transient(error):
                raise
            warns = after > _SILENT_SECONDS and not has_warned
            has_warned = has_warned or warns
            level = logging.WARNING if warns else logging.INFO
            _log.log(level, "The storage failed (%s: %s). Retrying in %.1f s", type(error).__name__, error, seconds)
            pause(seconds)
    raise AssertionError("unreachable")


def is_transient(error: BaseException) -> bool:
    """Return whether an error of a remote storage is temporary."""
    if isinstance(error, TimeoutError | ConnectionError):
        return True
    if isinstance(error, IndexError):  # s3fs fails on the missing arguments of a timeout while it reads an open file
        return isinstance(error.__context__, TimeoutError)
    if isinstance(error, OSError) and error.errno in _TRANSIENT_ERRNOS:
        return True
    if _http_status(error) in _TRANSIENT_HTTP_STATUSES or error_code(error) in _DAMAGED_UPLOADS:
        return True
    return any(kind.__name__ in _TRANSIENT_NAMES for kind in type(error).__mro__)


def error_code(error: BaseException) -> str | None:
    """Return the code of S3 in an error, such as `NoSuchBucket`; None: there is none."""
    code: str | None = _answer(error).get("Error", {}).get("Code")
    return code


def _is_throttled(error: BaseException) -> bool:
    return getattr(error, "errno", None) == errno.EBUSY or _http_status(error) in _THROTTLED_HTTP_STATUSES


def _http_status(error: BaseException) -> int | None:
    if answer := _answer(error):
        status: int | None = answer.get("ResponseMetadata", {}).get("HTTPStatusCode")
        return status
    for name in ("status_code", "status", "code"):  # adlfs, aiohttp, gcsfs
        value = getattr(error, name, None)
        if isinstance(value, int):
            return value
    return None


def _answer(error: BaseException) -> dict[str, Any]:
    """Return the response in an error of botocore, of whose codes s3fs names only some; empty: there is none."""
    answer = getattr(error.__cause__, "response", None)
    return answer if isinstance(answer, dict) else {}
