"""A table, its settings and its store, and what Dagster and the store have recorded about it."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import dagster as dg

from deltasnap_assets.runs import memory
from deltasnap_assets.runs.apply import Answer, answer_of
from deltasnap_assets.runs.observe import Asked, Seen
from deltasnap_assets.runs.planning.known_table import last_observation
from deltasnap_assets.runs.schedules import refresh_schedule
from deltasnap_assets.runs.stores import log_of, store_of
from deltasnap_assets.settings.config import Settings
from deltasnap_assets.settings.table_settings import ASSET_NAMES, TableSettings
from deltasnap_core import LogCursor, SnapshotStore
from deltasnap_core.support import LastPoll
from tests.builders import add, metadata, protocol, write_log
from tests.checkpoint_files import write_checkpoint
from tests.core.store.manifests import store_computed_versions, store_versions, stored_table

EVENTS = TableSettings(name="events", path="/data/events")
"""The settings of a table, for what Dagster has recorded about it."""


def write(path: Path, first: int, last: int, *, table_id: str = "table-id") -> None:
    """Write the commits of versions, each of which adds a file."""
    versions = {version: [add(f"{version}.parquet")] for version in range(first, last + 1)}
    if first == 0:
        versions[0] = [protocol(), metadata(table_id=table_id), *versions[0]]
    write_log(path, versions)


def materialize(instance: dg.DagsterInstance, versions: Iterable[int], names: Iterable[str] = ASSET_NAMES) -> None:
    """Record materializations of the assets of the table `events`."""
    names = tuple(names)
    for version in versions:
        for name in names:
            event = dg.AssetMaterialization(dg.AssetKey(["events", name]), partition=str(version))
            instance.report_runless_asset_event(event)


def health(instance: dg.DagsterInstance) -> str:
    """Return the health on the page of the table `events`."""
    last = last_observation(instance, EVENTS)
    assert last is not None
    return str(last.metadata["health"].value)


def forget_looks() -> None:
    """Forget what the ticks of this process have read, as in a new process."""
    memory.LOOKS.clear()


class FollowedTable:
    """The table `events` at a path, with a store beside it."""

    def __init__(self, path: Path, *, url: str | None = None, storage: Path | None = None, **settings: Any) -> None:
        self.path, self.log = path, path / "_delta_log"
        self.storage = storage or path.with_name(f"{path.name}-store")
        self.instance = dg.DagsterInstance.ephemeral()
        self.configure(url, **settings)

    def configure(self, url: str | None = None, **settings: Any) -> None:
        """Replace the settings of the table."""
        self.table = TableSettings(name="events", path=url or str(self.path), **settings)
        self.settings = Settings(storage=str(self.storage), tables=(self.table,))

    @property
    def store(self) -> SnapshotStore:
        return store_of(self.settings)

    @property
    def poll(self) -> LastPoll:
        """The last poll that the store recorded."""
        found = self.store.polls.read("events")
        assert found is not None
        return found

    @property
    def row(self) -> dict[str, Any]:
        """The row of the table in the fleet."""
        return dict(self.store.fleet(["events"]).to_pylist()[0])

    def write(self, first: int, last: int, *, table_id: str = "table-id") -> None:
        write(self.path, first, last, table_id=table_id)

    def commit(self, version: int) -> Path:
        """Return the file of a commit."""
        return self.log / f"{version:020d}.json"

    def damage(self, version: int) -> None:
        """Make a commit unreadable."""
        self.commit(version).write_bytes(b"{nope\n")

    def checkpoint(self, version: int) -> Path:
        """Write a checkpoint with the files of `write`, and return it."""
        actions = [protocol(), metadata(), *(add(f"{each}.parquet") for each in range(version + 1))]
        return write_checkpoint(self.log, version, "classic", actions)[0]

    def store_versions(self, versions: Iterable[int], *, computed: bool = False) -> None:
        """Store versions of the log without their rows. computed: with their computed states."""
        store = store_computed_versions if computed else store_versions
        store(stored_table(self.storage), log_of(self.table), versions)

    def poll_log(self, cursor: LogCursor | None = None) -> Answer:
        """Return the answer of a tick of the sensor after a commit, without its runs."""
        seen = Seen(settings=self.settings, table=self.table, instance=self.instance, asked=Asked.TICK, cursor=cursor)
        return answer_of(seen)[0]

    def ask_schedule(self) -> Any:
        """Return the answer of a tick of the schedule."""
        with dg.build_schedule_context(instance=self.instance) as context:
            return refresh_schedule(self.settings, self.table, "@daily")(context)
