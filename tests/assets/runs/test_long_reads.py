"""Reads in threads: at most some at once, and none keeps a process from exiting."""

from __future__ import annotations

import subprocess
import sys
import time
from functools import partial
from threading import Event

import pytest

from deltasnap_assets.runs.long_reads import ReadThreads

HANGING_POLL = """
import sys, threading
from pathlib import Path
import dagster as dg
from deltasnap_assets.runs import sensors, table_polls
from deltasnap_assets.settings.config import Settings, TableSettings
from tests.assets.jobs import idle_job

sensors._LAST_POLL_SECONDS = 0.2
table_polls.log_of = lambda _: threading.Event().wait()
table = TableSettings(name="events", path=sys.argv[1])
sensor = sensors.new_commits_sensor(Settings(storage=sys.argv[1] + "-store", tables=(table,)), table, [idle_job])
with dg.DagsterInstance.ephemeral() as instance:
    print(sensor(dg.build_sensor_context(instance=instance)).skip_reason.skip_message)
"""


def test_poll_that_never_ends_does_not_keep_the_process_from_exiting(tmp_path: object) -> None:
    command = [sys.executable, "-c", HANGING_POLL, f"{tmp_path}/events"]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert (ended.returncode, ended.stdout.startswith("events waits for its poll since")) == (0, True), ended.stderr


def test_at_most_some_reads_run_at_once_and_waiting_ones_can_be_cancelled() -> None:
    threads, end, begun = ReadThreads(2), Event(), list[int]()

    def read(number: int) -> int:
        begun.append(number)
        end.wait(60)
        return number

    futures = [threads.submit(partial(read, number)) for number in range(4)]
    while len(begun) < 2:
        time.sleep(0.01)
    threads.cancel()
    end.set()
    assert [future.result(60) for future in futures[:2]] == [0, 1]
    assert [future.cancelled() for future in futures] == [False, False, True, True]
    assert threads.submit(lambda: 5).result(60) == 5


def test_error_of_a_read_is_raised_where_its_result_is_used() -> None:
    def fail() -> None:
        raise OSError("no answer")

    with pytest.raises(OSError, match="no answer"):
        ReadThreads(1).submit(fail).result(60)
