"""Builders for the tests of refresh."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import dagster as dg

from deltasnap_assets.checks.registry import CHECKS
from deltasnap_assets.definitions import build_definitions
from deltasnap_assets.runs.planning.known_table import last_observation
from deltasnap_assets.runs.refresh import refresh_table
from deltasnap_core import SnapshotStore
from tests.assets.followed_table import EVENTS, FollowedTable
from tests.builders import add, commit_info, metadata, protocol, write_log

STATS = '{"numRecords": 1}'
"""Without it, a check warns."""


class Refreshed(FollowedTable):
    """A table in a separate folder, refreshed on one instance."""

    def __init__(self, folder: Path, **table: Any) -> None:
        super().__init__(folder / "events", storage=folder / "store", **table)

    def configure(self, url: str | None = None, **settings: Any) -> None:
        super().configure(url, **settings)
        self.defs = build_definitions(self.settings)

    def write(self, first: int, last: int, mark: str = "a", **_: Any) -> None:
        versions = {v: [commit_info(mark), add(f"{mark}{v}.parquet", stats=STATS)] for v in range(first, last + 1)}
        if first == 0:
            versions[0] = [protocol(), metadata(), *versions[0]]
        write_log(self.path, versions)

    def roll_back_to(self, version: int) -> None:
        for commit in self.log.glob("*.json"):
            if int(commit.name[:20]) > version:
                commit.unlink()

    def refresh(self) -> tuple[int, ...]:
        return refresh_table(self.defs, self.settings, self.table, self.instance, log_level="ERROR")

    def verdict(self, check: str) -> tuple[bool, str]:
        """Return whether a check passed, and its severity."""
        (asset,) = (each.asset for each in CHECKS if each.name == check)
        key = dg.AssetCheckKey(dg.AssetKey(["events", asset]), check)
        (record,) = self.instance.event_log_storage.get_asset_check_execution_history(key, limit=1)
        assert record.event is not None
        evaluation = record.event.dagster_event.asset_check_evaluation_data  # type: ignore[union-attr]
        return evaluation.passed, evaluation.severity.value

    def shown(self, name: str) -> object:
        """Return an entry on the page of the table; None: it is not there."""
        last = last_observation(self.instance, EVENTS)
        entry = None if last is None else last.metadata.get(name)
        return None if entry is None else entry.value

    @property
    def partitions(self) -> list[str]:
        return list(self.instance.get_dynamic_partitions("events_versions"))

    def stored_files(self, version: int) -> set[str]:
        store = SnapshotStore.open(None, self.settings.storage)
        state = store.computed_state("events", version)
        commit = store.manifest("events", version).commit
        assert commit is not None
        return {f"{state.num_of_files}", *(file.path for file in commit.sample)}
