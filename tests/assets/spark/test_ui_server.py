"""The server that the UI brings along, with a program in the place of Spark."""

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

pytestmark = pytest.mark.spark  # programs of its own

_UI = """\
import os, sys
from pathlib import Path
from deltasnap_assets.settings.config import SparkSettings
from deltasnap_assets.spark.ui_server import bring_server
bring_server(SparkSettings(), Path(sys.argv[1]), int(sys.argv[2]))
os.execv("/bin/sh", ["/bin/sh", "-c", "echo brought; exec sleep 600"])
"""


def test_server_ends_with_the_process_that_brought_it_though_that_is_killed(folder: Path) -> None:
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
def test_session_that_the_configuration_names_is_the_one_of_a_run(spark: SparkSettings) -> None:
    assert spark_of_run(spark, {PORT_VARIABLE: "1"}) == spark


def test_run_that_finds_no_server_has_a_session_of_its_own() -> None:
    assert spark_of_run(SparkSettings(), {PORT_VARIABLE: str(free_port())}) == SparkSettings()
    assert spark_of_run(SparkSettings(), {}) == SparkSettings()
