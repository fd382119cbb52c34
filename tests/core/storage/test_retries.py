"""The storage errors that are retried, and the number of retries."""

from __future__ import annotations

import errno
import time

import pytest

from deltasnap_core.storage.retries import ATTEMPTS, is_transient, retrying


class HTTPClientError(Exception):
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
    [OSError(errno.EBUSY, "SlowDown"), TimeoutError(), ConnectionResetError(), HTTPClientError(), HttpError(503)],
    ids=["throttled", "timeout", "connection", "client", "http status"],
)
def test_transient_error_is_retried_after_increasing_pauses(error: Exception) -> None:
    storage, pauses = Storage(error, ATTEMPTS - 1), list[float]()
    assert retrying(storage.ask, pause=pauses.append) == "content"
    assert storage.requested == ATTEMPTS == 5
    for pause, expected in zip(pauses, (0.2, 0.4, 0.8, 1.6), strict=True):
        assert 0.75 * expected <= pause <= 1.25 * expected


def test_transient_error_is_raised_after_the_last_retry() -> None:
    storage = Storage(TimeoutError("slow"), 99)
    with pytest.raises(TimeoutError, match="slow"):
        retrying(storage.ask, pause=lambda _: None)
    assert storage.requested == ATTEMPTS


def test_throttled_request_has_more_attempts_within_the_patience() -> None:
    storage = Storage(HttpError(503), ATTEMPTS + 2)
    assert retrying(storage.ask, pause=lambda _: None) == "content"


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
