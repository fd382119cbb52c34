"""`deltasnap refresh` killed at random moments: the next refresh repairs everything.

DELTASNAP_KILLS sets the number of moments, DELTASNAP_KILLS_SEED selects them.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from deltasnap_assets.settings.table_settings import ASSET_NAMES
from deltasnap_core import SnapshotStore
from tests.builders import add, commit_info, metadata, protocol, remove, write_log

pytestmark = [pytest.mark.spark, pytest.mark.thorough]

ROOT = Path(__file__).resolve().parents[3]
VERSIONS = 5
KILLS = int(os.environ.get("DELTASNAP_KILLS", "1"))
SEED = int(os.environ.get("DELTASNAP_KILLS_SEED", "0"))
CONFIGURATION = """
storage: store
tables: [{name: events, path: events, max_versions_per_run: 3}]
"""


class Place:
    """A folder with a table and a configuration, and the command run in it."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self.folder = folder
        (folder / "deltasnap.yaml").write_text(CONFIGURATION, encoding="utf-8")
        versions: dict[int, Any] = {v: [commit_info(), add(f"{v}.parquet", size=v + 1)] for v in range(VERSIONS)}
        versions[0] = [protocol(), metadata(), *versions[0]]
        versions[VERSIONS - 1] += [remove("1.parquet")]
        write_log(folder / "events", versions)

    def start(self) -> subprocess.Popen[bytes]:
        """Start `deltasnap refresh`."""
        env = {name: value for name, value in os.environ.items() if name not in ("DAGSTER_HOME", "DELTASNAP_CONFIG")}
        command = [sys.executable, "-c", "from deltasnap_assets.command.cli import main; main()", "refresh"]
        with (self.folder / "printed").open("wb") as sink:
            return subprocess.Popen(
                command,
                cwd=self.folder,
                env={**env, "PYTHONPATH": str(ROOT)},
                stdin=subprocess.DEVNULL,
                stdout=sink,
                stderr=subprocess.STDOUT,
            )

    def refresh(self) -> None:
        """Run `deltasnap refresh`, which must succeed."""
        code = self.start().wait()
        assert code == 0, (self.folder / "printed").read_text(encoding="utf-8")

    def sums(self) -> dict[int, tuple[int, int, int]]:
        """Files, bytes and tombstones of every stored version."""
        store = SnapshotStore.open(None, str(self.folder / "store"))
        states = {version: store.computed_state("events", version) for version in store.versions("events")}
        return {v: (state.num_of_files, state.size_in_bytes, state.num_of_removes) for v, state in states.items()}

    def instance(self) -> dg.DagsterInstance:
        """The instance created by the command."""
        return dg.DagsterInstance.from_config(str(self.folder / ".deltasnap" / "dagster_home"))


@pytest.fixture(scope="module")
def unharmed(tmp_path_factory: pytest.TempPathFactory) -> tuple[float, dict[int, tuple[int, int, int]]]:
    """The duration of a complete refresh in seconds, and its stored versions."""
    place = Place(tmp_path_factory.mktemp("unharmed") / "place")
    began = time.monotonic()
    place.refresh()
    return time.monotonic() - began, place.sums()


@pytest.mark.parametrize("number", range(KILLS))
def test_killed_refresh_is_completed_by_the_next(
    number: int, unharmed: tuple[float, dict[int, tuple[int, int, int]]], tmp_path: Path, spark: Any
) -> None:
    seconds, expected = unharmed
    # One moment in each part of the run, so that a few moments cover it.
    moment = seconds * (number + random.Random(SEED + number).random()) / KILLS
    place = Place(tmp_path / "place")
    process = place.start()
    time.sleep(moment)
    process.kill()
    process.wait()
    place.refresh()
    assert place.sums() == expected, f"killed after {moment:.2f} s"
    files = SnapshotStore.open(spark, str(place.folder / "store")).all_files("events", VERSIONS - 1)
    assert {row.path for row in files.collect()} == {f"{v}.parquet" for v in range(VERSIONS) if v != 1}
    with place.instance() as instance:
        keys = {str(version) for version in range(VERSIONS)}
        done = {name: instance.get_materialized_partitions(dg.AssetKey(["events", name])) for name in ASSET_NAMES}
        assert done == dict.fromkeys(ASSET_NAMES, keys), f"killed after {moment:.2f} s"
        # The killed run, if there was one, is left as it was: only Dagster knows whether it lives.
        left = [run.status for run in instance.get_runs() if run.status is not dg.DagsterRunStatus.SUCCESS]
        assert len(left) <= 1
        assert dg.DagsterRunStatus.FAILURE not in left
