from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import dagster as dg
import pytest

from deltasnap_assets.runs.planning.names import table_key
from deltasnap_assets.settings.table_settings import TableSettings
from deltasnap_assets.tables.pages import asset_pages
from deltasnap_assets.tables.pages.table_observation import health_of, recent_commits, table_observation
from deltasnap_core.support import DataChange
from tests.assets.checks.known import condition
from tests.assets.followed_table import EVENTS
from tests.assets.tables.pages.metadata_builders import state

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


def test_page_that_cannot_be_shown_is_a_note_on_the_page(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asset_pages, "health", None)
    manifest = SimpleNamespace(timestamp=3, commit=None, version_changes=None)
    snapshots: Any = SimpleNamespace(
        stored_versions=lambda _: [3],
        listing=lambda _: SimpleNamespace(latest_version=3),
        state_if_stored=lambda *_: None,
        log_segments=lambda *_: {3: None},
        conditions=SimpleNamespace(of=lambda _: condition()),
        facts=SimpleNamespace(of=lambda *_: SimpleNamespace(files=None, tombstones=None)),
        data_change=lambda *_: DataChange(version=2, known_to=3, generation="g"),
        versions=SimpleNamespace(states=lambda *_: {3: state()}, manifests=lambda *_: {3: manifest}),
    )
    found = table_observation(dg.DagsterInstance.ephemeral(), snapshots, TABLE, [3])
    assert found is not None
    facts = ["latest_version", "data_version", "dagster/last_updated_timestamp"]
    assert [*found.metadata] == [*facts, "table_page_problem"]
    assert found.data_version == "2"


def test_health_is_that_of_the_last_observation_as_plain_text() -> None:
    instance = dg.DagsterInstance.ephemeral()
    assert health_of(instance, EVENTS) is None
    for text in ("broken\\.", "healthy\\."):
        metadata = {"health": dg.MetadataValue.md(text)}
        instance.report_runless_asset_event(dg.AssetObservation(table_key(EVENTS), metadata=metadata))
    assert health_of(instance, EVENTS) == "healthy."
