from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from deltasnap_assets.settings.config import TableSettings
from deltasnap_assets.tables.pages.table_observation import recent_commits

TABLE = TableSettings(name="events", path="/t")


def test_recent_commits_are_the_stored_ones_of_thirty_versions_newest_first() -> None:
    def manifests(_: TableSettings, versions: list[int]) -> dict[int, Any]:
        return {version: SimpleNamespace(timestamp=version * 10, commit=None) for version in versions}

    stored = [*range(60), *range(70, 101)]
    snapshots: Any = SimpleNamespace(stored_versions=lambda _: stored, manifests=manifests)
    found = recent_commits(snapshots, TABLE, 98)
    assert [commit.version for commit in found] == list(range(98, 69, -1))
    assert [commit.version for commit in recent_commits(snapshots, TABLE, 59)] == list(range(59, 29, -1))
    assert (found[0].timestamp, found[0].operation) == (980, None)
