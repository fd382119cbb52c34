"""The storage errors that are retried, and the number of retries."""

from __future__ import annotations

import errno
import time

import pytest
from fsspec.exceptions import FSTimeoutError

from deltasnap_core.storage.retries import ATTEMPTS, is_transient, retrying


class HTTPClientError(Exception):
    """Named as in botocore."""


class FlexibleChecksumError(Exception):
    """Named as in botocore."""


class HttpError(Exception):
    """Like the error of gcsfs."""

    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code


class Storage:
    """Fails this many times with an error."""

    def __init__(self, error: Exception, times: int) -> None:
        self.error, self.times, self.requested = error, times, 0

    def ask(self) -> str:
        self.requested += 1
        if self.requested <= self.times:
            raise self.error
        return "content"


@pytest.mark.parametrize(
    "error",
    [
        *(OSError(errno.EBUSY, "SlowDown"), TimeoutError(), ConnectionResetError(), HTTPClientError(), HttpError(503)),
        FlexibleChecksumError("Expected checksum a== did not match calculated checksum: b=="),
    ],
    ids=["throttled", "timeout", "connection", "client", "http status", "damage in transit"],
)
def test_transient_error_is_retried_after_increasing_pauses(error: Exception) -> None:
    storage, pauses = Storage(error, ATTEMPTS - 1), list[float]()
    assert retrying(storage.ask, pause=pauses.append) == "content"
    assert storage.requested == ATTEMPTS == 5
    for pause, expected in zip(pauses, (0.2, 0.4, 0.8, 1.6), strict=True):
        assert 0.75 * expected <= pause <= 1.25 * expected


@pytest.mark.parametrize("code", [408, 429, 500, 502, 503, 504])
def test_transient_status_is_retried_and_another_is_not(code: int) -> None:
    assert retrying(Storage(HttpError(code), 1).ask, pause=lambda _: None) == "content"
    with pytest.raises(HttpError):
        retrying(Storage(HttpError(404), 1).ask, pause=lambda _: None)


def test_transient_error_is_raised_after_the_last_retry() -> None:
    storage = Storage(TimeoutError("slow"), 99)
    with pytest.raises(TimeoutError, match="slow"):
        retrying(storage.ask, pause=lambda _: None)
    assert storage.requested == ATTEMPTS


def test_throttled_request_has_more_attempts_within_the_patience() -> None:
    for error in (HttpError(503), HttpError(429), OSError(errno.EBUSY, "SlowDown")):
        assert retrying(Storage(error, ATTEMPTS + 2).ask, pause=lambda _: None) == "content"
    with pytest.raises(HttpError):
        retrying(Storage(HttpError(500), ATTEMPTS).ask, pause=lambda _: None)


def test_retries_stop_when_the_patience_is_exhausted(monkeypatch: pytest.MonkeyPatch) -> None:
    storage, now = Storage(TimeoutError("slow"), 99), iter(range(0, 1000, 9))  # an attempt takes nine seconds
    monkeypatch.setattr(time, "monotonic", lambda: next(now))
    with pytest.raises(TimeoutError, match="slow"):
        retrying(storage.ask, pause=lambda _: None)
    assert storage.requested == 3


def test_work_that_takes_longer_than_the_patience_is_retried_once(monkeypatch: pytest.MonkeyPatch) -> None:
    storage, now = Storage(TimeoutError("broken"), 1), iter(range(0, 1000, 100))
    monkeypatch.setattr(time, "monotonic", lambda: next(now))
    assert retrying(storage.ask, pause=lambda _: None) == "content"
    again = Storage(TimeoutError("broken"), 99)
    with pytest.raises(TimeoutError, match="broken"):
        retrying(again.ask, pause=lambda _: None)
    assert again.requested == 2


def test_retries_that_take_long_are_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    retrying(Storage(TimeoutError("slow"), 1).ask, pause=lambda _: None)
    assert [record for record in caplog.records if record.levelname == "WARNING"] == []
    retrying(Storage(TimeoutError("slow"), ATTEMPTS - 1).ask, pause=lambda _: None)
    (record,) = [record for record in caplog.records if record.levelname == "WARNING"]
    assert "The storage failed (TimeoutError: slow). Retrying in" in record.getMessage()


@pytest.mark.parametrize(
    "error",
    [FileNotFoundError("x"), PermissionError("x"), OSError(errno.ENOSPC, "full"), ValueError("x"), HttpError(403)],
    ids=["not found", "forbidden", "full", "no storage error", "http status"],
)
def test_permanent_error_is_raised_immediately(error: Exception) -> None:
    storage = Storage(error, 99)
    with pytest.raises(type(error)):
        retrying(storage.ask, pause=lambda _: None)
    assert storage.requested == 1
    assert not is_transient(error)


TRANSIENT_NUMBERS = (
    *(errno.EAGAIN, errno.EBUSY, errno.ETIMEDOUT, errno.ECONNRESET, errno.ECONNABORTED, errno.ECONNREFUSED),
    *(errno.EPIPE, errno.ENETUNREACH, errno.EHOSTUNREACH, errno.EREMOTEIO),
)


@pytest.mark.parametrize("number", TRANSIENT_NUMBERS, ids=lambda number: errno.errorcode[number])
def test_errors_of_the_network_are_temporary(number: int) -> None:
    assert is_transient(OSError(number, "failed"))


@pytest.mark.parametrize("number", [errno.ENOENT, errno.EACCES, errno.ENOSPC, errno.EINVAL])
def test_other_errors_of_the_system_are_final(number: int) -> None:
    assert not is_transient(OSError(number, "failed"))


@pytest.mark.parametrize(
    ("status", "expected"), [(400, False), (404, False), (408, True), (429, True), (500, True), (501, False)]
)
@pytest.mark.parametrize("name", ["status_code", "status", "code"])
def test_http_status_of_any_client_decides(name: str, status: int, expected: bool) -> None:
    error = Exception("failed")
    setattr(error, name, status)
    assert is_transient(error) is expected


def test_timeout_that_s3fs_fails_to_handle_is_temporary() -> None:
    error = IndexError("tuple index out of range")
    assert not is_transient(error)
    error.__context__ = FSTimeoutError()
    assert is_transient(error)


@pytest.mark.parametrize(("status", "expected"), [(400, False), (429, True), (501, False), (502, True), (504, True)])
def test_http_status_of_an_s3_error_without_a_known_code_decides(status: int, expected: bool) -> None:
    error = OSError(errno.EIO, "An error occurred")  # as s3fs raises it
    error.__cause__ = Exception()
    error.__cause__.response = {"ResponseMetadata": {"HTTPStatusCode": status}}  # type: ignore[attr-defined]  # as botocore
    assert is_transient(error) is expected


@pytest.mark.parametrize(
    "name",
    [
        *("ClientConnectionError", "ClientPayloadError", "ConnectionClosedError", "EndpointConnectionError"),
        *("HTTPClientError", "IncompleteRead", "ResponseParserError", "ServerDisconnectedError"),
        *("ServiceRequestError", "ServiceResponseError"),
    ],
)
def test_errors_of_http_clients_are_temporary_by_name(name: str) -> None:
    kind = type(name, (Exception,), {})
    assert is_transient(type("OfLibrary", (kind,), {})())
    assert not is_transient(type(f"{name}Not", (Exception,), {})())


@pytest.mark.parametrize(("code", "expected"), [("BadDigest", True), ("InvalidArgument", False)])
def test_upload_that_was_damaged_in_transit_is_retried(code: str, expected: bool) -> None:
    error = OSError(errno.EINVAL, "The CRC32 you specified did not match")  # as s3fs raises it
    answer = {"Error": {"Code": code}, "ResponseMetadata": {"HTTPStatusCode": 400}}
    error.__cause__ = Exception()
    error.__cause__.response = answer  # type: ignore[attr-defined]  # as botocore
    assert is_transient(error) is expected
