"""Reads in threads that take longer than a tick."""

from __future__ import annotations

from concurrent.futures import Future
from types import SimpleNamespace

import pytest

from deltasnap_assets.runs import memory
from deltasnap_assets.runs.memory import LongReads
from tests.assets.command.cli_builders import FORKS

HANGING_POLL = """
import signal, sys, threading
import dagster as dg
from deltasnap_assets.runs import polls, sensors
from deltasnap_assets.settings.config import Settings, TableSettings
from deltasnap_core import TableLog
from tests.assets.jobs import idle_job

signal.alarm(60)
polls._MAX_SECONDS = 0.2
TableLog.for_path = lambda *_: threading.Event().wait()
table = TableSettings(name="events", path=sys.argv[1])
sensor = sensors.new_commits_sensor(Settings(storage=sys.argv[1] + "-store", tables=(table,)), table, [idle_job])
with dg.DagsterInstance.ephemeral() as instance:
    print(sensor(dg.build_sensor_context(instance=instance)).skip_reason.skip_message)
threading._shutdown()  # as Python does at its end
"""


NOW = 1_700_000_000.0


@pytest.fixture
def now(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time, which a test may change."""
    times = [NOW]
    monkeypatch.setattr(memory, "time", SimpleNamespace(time=lambda: times[0]))
    return times


def test_read_without_an_answer_is_started_again_after_pauses_that_double(now: list[float]) -> None:
    reads, started = LongReads[str, int](), list[Future[int]]()

    def start() -> Future[int]:
        started.append(Future())
        return started[-1]

    counts = []
    for seconds in (0, 299, 300, 899, 900, 2099, 2100):
        now[0] = NOW + seconds
        read = reads.of("a", start)
        counts.append((len(started), read.is_overdue))
    assert counts == [
        (1, False), (1, False), (2, True), (2, True), (3, True), (3, True), (4, True),
    ]  # fmt: skip
    assert read.since_text == "since 2023-11-14 22:13:20 UTC (35 minutes)"
    now[0] = NOW + 20_000
    assert read.is_given_up


def test_result_of_a_read_is_kept_until_it_is_used(now: list[float]) -> None:
    reads, done = LongReads[str, int](), Future[int]()
    done.set_result(7)
    assert reads.of("a", lambda: done).future.result() == 7
    now[0] += 100_000
    assert (reads.of("a", Future).future, "a" in reads, "b" in reads) == (done, True, False)
    reads.end("a")
    reads.end("b")
    assert "a" not in reads


@pytest.mark.slow
def test_poll_that_never_ends_does_not_keep_the_process_from_exiting(tmp_path: object) -> None:
    ended = FORKS.run(HANGING_POLL, f"{tmp_path}/events")
    is_waiting = ended.stdout.startswith("The poll of events has been running since")
    assert (ended.returncode, is_waiting) == (0, True), ended.stderr
