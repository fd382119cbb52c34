"""Which errors of a storage are worth another try, and how many tries."""

from __future__ import annotations

import errno

import pytest

from deltasnap_core.storage.retries import ATTEMPTS, is_transient, retrying


class HTTPClientError(Exception):
    """As botocore names it."""


class HttpError(Exception):
    """As gcsfs has it."""

    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code


class Storage:
    """Refuses so many times with an error."""

    def __init__(self, error: Exception, times: int) -> None:
        self.error, self.times, self.asked = error, times, 0

    def ask(self) -> str:
        self.asked += 1
        if self.asked <= self.times:
            raise self.error
        return "content"


@pytest.mark.parametrize(
    "error",
    [OSError(errno.EBUSY, "SlowDown"), TimeoutError(), ConnectionResetError(), HTTPClientError(), HttpError(503)],
    ids=["throttled", "timeout", "connection", "client", "http status"],
)
def test_error_that_passes_is_tried_again_after_growing_pauses(error: Exception) -> None:
    storage, pauses = Storage(error, ATTEMPTS - 1), list[float]()
    assert retrying(storage.ask, pause=pauses.append) == "content"
    assert storage.asked == ATTEMPTS == 5
    for pause, expected in zip(pauses, (0.2, 0.4, 0.8, 1.6), strict=True):
        assert 0.75 * expected <= pause <= 1.25 * expected


def test_error_that_does_not_pass_away_is_raised_in_the_end() -> None:
    storage = Storage(TimeoutError("slow"), 99)
    with pytest.raises(TimeoutError, match="slow"):
        retrying(storage.ask, pause=lambda _: None)
    assert storage.asked == ATTEMPTS


@pytest.mark.parametrize(
    "error",
    [FileNotFoundError("x"), PermissionError("x"), OSError(errno.ENOSPC, "full"), ValueError("x"), HttpError(403)],
    ids=["not found", "forbidden", "full", "no storage error", "http status"],
)
def test_error_that_stays_is_raised_at_once(error: Exception) -> None:
    storage = Storage(error, 99)
    with pytest.raises(type(error)):
        retrying(storage.ask, pause=lambda _: None)
    assert storage.asked == 1
    assert not is_transient(error)
