"""The server started by the UI, with a fake Spark."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from deltasnap_assets.settings.config import SparkSettings
from deltasnap_assets.spark.connect_server import free_port, running_server, stop_server
from deltasnap_assets.spark.ui_server import PORT_VARIABLE, spark_of_run
from tests.assets.spark.test_connect_server import LISTENS, folder, spark_that

__all__ = ["folder"]  # the fixture

_UI = """\
import os, sys
from pathlib import Path
from deltasnap_assets.settings.config import SparkSettings
from deltasnap_assets.spark.ui_server import bring_server
bring_server(SparkSettings(), Path(sys.argv[1]), int(sys.argv[2]))
os.execv("/bin/sh", ["/bin/sh", "-c", "echo brought; exec sleep 600"])
"""


@pytest.mark.spark  # separate programs
def test_server_stops_even_if_the_process_that_started_it_is_killed(folder: Path) -> None:
    spark_that(folder, LISTENS)
    command = [sys.executable, "-c", _UI, str(folder), str(free_port())]
    interface = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=dict(os.environ))
    try:
        assert interface.stdout is not None
        assert interface.stdout.readline() == "brought\n"
        assert running_server(folder) is not None
        interface.kill()
        interface.wait()
        while running_server(folder) is not None:
            time.sleep(0.05)
    finally:
        interface.kill()
        stop_server(folder)


@pytest.mark.parametrize(
    "spark",
    [SparkSettings(remote="sc://elsewhere:15002"), SparkSettings(master="local[2]")],
    ids=["a server is named", "a master is named"],
)
def test_configured_session_is_used_in_a_run(spark: SparkSettings) -> None:
    assert spark_of_run(spark, {PORT_VARIABLE: "1"}) == spark


def test_run_without_a_server_starts_its_own_session() -> None:
    assert spark_of_run(SparkSettings(), {PORT_VARIABLE: str(free_port())}) == SparkSettings()
    assert spark_of_run(SparkSettings(), {}) == SparkSettings()
