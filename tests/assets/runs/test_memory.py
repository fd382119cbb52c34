"""Reads in threads that take longer than a tick."""

from __future__ import annotations

import pytest

from tests.assets.command.cli_builders import FORKS

HANGING_POLL = """
import signal, sys, threading
import dagster as dg
from deltasnap_assets.runs import polls, sensors
from deltasnap_assets.settings.config import Settings
from deltasnap_assets.settings.table_settings import TableSettings
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


@pytest.mark.slow
def test_poll_that_never_ends_does_not_keep_the_process_from_exiting(tmp_path: object) -> None:
    ended = FORKS.run(HANGING_POLL, f"{tmp_path}/events")
    is_waiting = ended.stdout.startswith("The poll of events has been running since")
    assert (ended.returncode, is_waiting) == (0, True), ended.stderr
