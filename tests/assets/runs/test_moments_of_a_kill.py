"""A refresh that is killed after some event: the next one, and a tick ten minutes later, do what is missing.

What a kill leaves behind is a copy of the instance and the store after an event. A killed process is in
`test_refresh_kills`, killed runs of a deployment in `tests/assets/deployed`.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from deltasnap_assets.definitions import build_definitions
from deltasnap_assets.runs.planning.names import RANGE_END_TAG, RANGE_START_TAG
from deltasnap_assets.runs.refresh import refresh_table
from deltasnap_assets.runs.sensors import new_commits_sensor
from deltasnap_assets.settings.table_settings import ASSET_NAMES
from tests.assets.followed_table import FollowedTable
from tests.assets.jobs import idle_job, ticked
from tests.driver_bases import use_driver_bases
from tests.fast_dagster import copy_of
from tests.thorough import one_in

VERSIONS = 5
MOMENTS = 40
LONG_AFTER_SECONDS = 11 * 60
Totals = dict[int, tuple[int, int, int]]


class Killed(FollowedTable):
    """The table, its store and its instance as a killed refresh left them."""

    def configure(self, url: str | None = None, **settings: Any) -> None:
        super().configure(url, max_versions_per_run=3, refresh=None, **settings)
        self.events = list[str]()
        self.defs = build_definitions(self.settings)
        self.sensor = new_commits_sensor(self.settings, self.table, [idle_job])

    def copy(self, folder: Path) -> Killed:
        """Return a copy of what is there now, with the same table."""
        copied = Killed(self.path, storage=folder)
        if self.storage.exists():
            shutil.copytree(self.storage, folder)
        copied.instance = copy_of(self.instance)
        return copied

    def refresh(self, on_event: Callable[[range, str], None] = lambda *_: None) -> tuple[int, ...]:
        return refresh_table(
            self.defs, self.settings, self.table, self.instance, on_event=on_event, log_level="CRITICAL"
        )

    def requests(self) -> list[dg.RunRequest]:
        """Return what a tick requests that knows no cursor: the daemon may have been killed before it stored one."""
        return [*(ticked(self.sensor, self.instance).run_requests or ())]

    @property
    def totals(self) -> Totals:
        states = {version: self.store.computed_state("events", version) for version in self.store.versions("events")}
        return {v: (state.num_of_files, state.size_in_bytes, state.num_of_removes) for v, state in states.items()}

    @property
    def materialized(self) -> set[int]:
        """The versions for which every asset is materialized."""
        found = (self.instance.get_materialized_partitions(dg.AssetKey(["events", name])) for name in ASSET_NAMES)
        return {int(key) for key in set.intersection(*found)}


@pytest.fixture(scope="module", autouse=True)
def _no_session() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        use_driver_bases(patch)
        yield


@pytest.fixture(scope="module")
def unharmed(tmp_path_factory: pytest.TempPathFactory) -> Killed:
    """A table after a complete refresh."""
    table = Killed(tmp_path_factory.mktemp("unharmed") / "events")
    table.write(0, VERSIONS - 1)
    assert table.refresh(lambda _, message: table.events.append(message)) == tuple(range(VERSIONS))
    return table


@pytest.fixture(scope="module")
def left_behind(unharmed: Killed, tmp_path_factory: pytest.TempPathFactory) -> list[Killed]:
    """What a kill leaves behind at each of the moments, evenly spread over the events of a refresh."""
    folder = tmp_path_factory.mktemp("left")
    table, left = Killed(unharmed.path, storage=folder / "store"), list[Killed]()
    moments = [len(unharmed.events) * moment // MOMENTS for moment in range(MOMENTS)]

    def kill(_: range, message: str) -> None:
        table.events.append(message)
        if len(table.events) - 1 in moments:
            left.append(table.copy(folder / f"after_{len(left)}"))

    table.refresh(kill)
    assert len(left) == MOMENTS
    return left


@pytest.mark.slow
@pytest.mark.parametrize("moment", one_in(14, range(MOMENTS)))
def test_refresh_completes_a_killed_one(
    moment: int, left_behind: list[Killed], unharmed: Killed, tmp_path: Path
) -> None:
    table = left_behind[moment].copy(tmp_path / "store")
    missing = {*range(VERSIONS)} - table.materialized
    # Without its checks, the newest version is materialized again.
    assert missing <= {*table.refresh()} <= missing | {VERSIONS - 1}
    assert table.totals == unharmed.totals
    assert table.materialized == {*range(VERSIONS)}


@pytest.mark.slow
@pytest.mark.parametrize("moment", one_in(14, range(MOMENTS)))
def test_tick_requests_what_a_killed_refresh_left_after_ten_minutes(
    moment: int, left_behind: list[Killed], unharmed: Killed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = left_behind[moment].copy(tmp_path / "store")
    if any(not run.is_finished for run in table.instance.get_runs()):
        assert table.requests() == []
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now + LONG_AFTER_SECONDS)
    job = table.defs.resolve_job_def("events_snapshots")
    while requests := table.requests():
        for request in requests:
            versions = {*range(int(request.tags[RANGE_START_TAG]), int(request.tags[RANGE_END_TAG]) + 1)}
            assert not versions & table.materialized
            assert job.execute_in_process(instance=table.instance, tags=request.tags).success
            assert versions <= table.materialized
    assert table.totals == unharmed.totals
    assert table.materialized == {*range(VERSIONS)}
