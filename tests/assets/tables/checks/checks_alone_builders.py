"""Builders for the tests of checks alone."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import dagster as dg
import pytest

from deltasnap_assets.checks.registry import CHECKS
from deltasnap_assets.definitions import build_definitions
from deltasnap_assets.runs.condition.poll_findings import PollFindings
from deltasnap_assets.runs.condition.poll_records import record
from deltasnap_assets.runs.planning.names import run_tags
from deltasnap_core import Problem
from deltasnap_core.protocol.log_files.file_names import checksum_file
from tests.assets.followed_table import FollowedTable

LAST = 5


class Table(FollowedTable):
    """The table `events` of a folder with its store, and its checks as jobs."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder / "events", storage=folder / "store")

    def record(self, *problems: Problem) -> None:
        found = PollFindings(
            problems={each.check: (each,) for each in problems}, checked_version=LAST, is_examined=True
        )
        record(self.store, self.table, found)

    def check(self, name: str, asset: str | None = None, version: int | None = None) -> dg.AssetCheckEvaluation:
        """Execute one check, and return its result. version: of the run; None: it has none."""
        asset = asset or next(check.asset for check in CHECKS if check.name == name)
        versions = None if version is None else (version, version)
        return next(each for each in self.evaluations(name, asset, versions) if each.partition is None)

    def evaluations(
        self, name: str, asset: str, versions: tuple[int, int] | None = None, partition: int | None = None
    ) -> list[dg.AssetCheckEvaluation]:
        """Execute one check, and return its results. versions: the first and the last one of the run."""
        tags = {} if partition is None else {"dagster/partition": f"{partition}"}
        key = dg.AssetCheckKey(dg.AssetKey(["events", asset]), name)
        job = dg.define_asset_job("alone", selection=dg.AssetSelection.checks(key), executor_def=dg.in_process_executor)
        defs = dg.Definitions.merge(build_definitions(self.settings), dg.Definitions(jobs=[job]))
        result = defs.resolve_job_def("alone").execute_in_process(
            instance=self.instance,
            tags=tags if versions is None else run_tags("events", *versions),
            raise_on_error=False,
        )
        assert result.success or versions is None or name == "checksum_agrees"
        return list(result.get_asset_check_evaluations())


def stored(folder: Path) -> Table:
    """Return a new table with one file more in each version, whose versions are stored."""
    table = Table(folder)
    table.write(0, LAST)
    wrong = {"tableSizeBytes": 99, "numFiles": 77, "numMetadata": 1, "numProtocol": 1}
    (table.log / checksum_file(LAST)).write_text(json.dumps(wrong))
    table.store_versions(range(LAST + 1), computed=True)
    return table


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("original")
    stored(folder)
    return folder


@pytest.fixture
def table(original: Path, tmp_path: Path) -> Table:
    """A copy of a stored table. Its store names the files of the original log, such as its checksum."""
    return Table(shutil.copytree(original, tmp_path, dirs_exist_ok=True))
