from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import dagster as dg

from deltasnap_assets.runs.planning.names import delta_log_key
from deltasnap_assets.settings.config import TableSettings
from deltasnap_assets.tables.pages.table_observation import health_of, recent_commits

TABLE = TableSettings(name="events", path="/t")


def test_recent_commits_are_the_stored_ones_of_thirty_versions_newest_first() -> None:
    def manifests(_: str, versions: list[int]) -> dict[int, Any]:
        return {version: SimpleNamespace(timestamp=version * 10, commit=None) for version in versions}

    stored = [*range(60), *range(70, 101)]
    snapshots: Any = SimpleNamespace(stored_versions=lambda _: stored, versions=SimpleNamespace(manifests=manifests))
    found = recent_commits(snapshots, TABLE, 98)
    assert [commit.version for commit in found] == list(range(98, 69, -1))
    assert [commit.version for commit in recent_commits(snapshots, TABLE, 59)] == list(range(59, 29, -1))
    assert (found[0].timestamp, found[0].operation) == (980, None)


def test_health_is_that_of_the_last_observation_as_plain_text() -> None:
    instance = dg.DagsterInstance.ephemeral()
    assert health_of(instance, "events") is None
    for text in ("broken\\.", "healthy\\."):
        metadata = {"health": dg.MetadataValue.md(text)}
        instance.report_runless_asset_event(dg.AssetObservation(delta_log_key("events"), metadata=metadata))
    assert health_of(instance, "events") == "healthy."
