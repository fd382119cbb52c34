"""Builders for the tests of sensors."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import dagster as dg

from deltasnap_assets.runs.planning.known_table import observation_tags
from deltasnap_assets.runs.planning.names import run_tags, table_key
from deltasnap_assets.runs.sensors import new_commits_sensor
from tests.assets.followed_table import EVENTS, FollowedTable, materialize
from tests.assets.jobs import idle_job, ticked

START, END = "dagster/asset_partition_range_start", "dagster/asset_partition_range_end"


class Ticks(FollowedTable):
    """A sensor evaluated by the test: partitions are added, and runs succeed immediately and observe the table.

    last: the version of the last commit; None: there is no log.
    """

    def __init__(
        self, path: Path, *, last: int | None = None, url: str | None = None, runs_succeed: bool = True, **settings: Any
    ) -> None:
        super().__init__(path, url=url, **settings)
        if last is not None:
            self.write(0, last)
        self.sensor = new_commits_sensor(self.settings, self.table, [idle_job])
        self.cursor: str | None = None
        self.runs_succeed = runs_succeed
        self.tags: Mapping[str, str] = {}

    def tick(self) -> list[tuple[str, str]] | str:
        """The requested ranges, or the skip reason."""
        result = ticked(self.sensor, self.instance, self.cursor)
        self.cursor = result.cursor
        if result.skip_reason is not None:
            return result.skip_reason.skip_message or ""
        ranges = [(request.tags[START], request.tags[END]) for request in result.run_requests or ()]
        self.tags = result.run_requests[-1].tags if result.run_requests else {}
        for first, last in ranges if self.runs_succeed else ():
            materialize(self.instance, range(int(first), int(last) + 1))
            tags = observation_tags(self.instance, self.table, int(last), "table-id")
            self.instance.report_runless_asset_event(dg.AssetObservation(table_key(EVENTS), tags=tags))
        return ranges

    @property
    def partitions(self) -> list[str]:
        return list(self.instance.get_dynamic_partitions("events_versions"))


def failed_run(instance: dg.DagsterInstance, first: int, last: int) -> str:
    return ended_run(instance, first, last, dg.DagsterRunStatus.FAILURE)


def ended_run(instance: dg.DagsterInstance, first: int, last: int, status: dg.DagsterRunStatus) -> str:
    """Record a run that ended without a materialization."""
    return instance.create_run_for_job(idle_job, status=status, tags=run_tags("events", first, last)).run_id
