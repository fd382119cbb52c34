"""The observation of a table, and the times of commits on its pages. The driver writes the bases: no JVM."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import dagster as dg
import pytest

from deltasnap_assets.definitions import build_definitions
from deltasnap_assets.runs.planning.names import table_key
from deltasnap_assets.runs.refresh import refresh_table
from deltasnap_assets.settings.config import Settings
from deltasnap_assets.settings.table_settings import TableSettings
from deltasnap_assets.tables.pages import asset_pages
from deltasnap_assets.tables.pages.table_observation import health_of, recent_commits, table_observation
from deltasnap_core.support import DataChange
from tests.assets.checks.known import condition
from tests.assets.followed_table import EVENTS, FollowedTable
from tests.assets.tables.pages.metadata_builders import state
from tests.builders import FIRST_COMMIT_MS, add, commit_info, metadata, protocol, write_log
from tests.driver_bases import use_driver_bases

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


IN_COMMIT = {"delta.enableInCommitTimestamps": "true"}
COPIED_S = FIRST_COMMIT_MS // 1000 + 3600


@pytest.fixture(scope="module")
def entries(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """The metadata of a version with an in-commit timestamp, by asset. Its file was copied an hour later."""
    folder = tmp_path_factory.mktemp("lake")
    first = [protocol(3, 7, readerFeatures=[], writerFeatures=["inCommitTimestamp"]), metadata(configuration=IN_COMMIT)]
    log = write_log(folder / "events", {0: [commit_info(inCommitTimestamp=FIRST_COMMIT_MS), *first, add("a")]})
    os.utime(log / f"{0:020d}.json", (COPIED_S, COPIED_S))
    table = TableSettings(name="events", path=str(folder / "events"))
    settings = Settings(storage=str(folder / "store"), tables=(table,))
    instance = dg.DagsterInstance.ephemeral()
    with pytest.MonkeyPatch.context() as monkeypatch:
        use_driver_bases(monkeypatch)
        refresh_table(build_definitions(settings), settings, table, instance, log_level="ERROR")
    (page,) = instance.fetch_observations(dg.AssetKey(["events", "delta_log"]), limit=1).records
    assert page.asset_observation is not None
    found = {"delta_log": page.asset_observation.metadata}
    for name in ("log_segment", "reconstructed_state"):
        (record,) = instance.fetch_materializations(dg.AssetKey(["events", name]), limit=1).records
        assert record.asset_materialization is not None
        found[name] = record.asset_materialization.metadata
    return {name: {key: entry.value for key, entry in values.items()} for name, values in found.items()}


@pytest.mark.parametrize("asset", ["delta_log", "reconstructed_state"])
def test_time_of_a_commit_is_its_in_commit_timestamp(entries: dict[str, dict[str, Any]], asset: str) -> None:
    assert entries[asset]["committed_at"] == FIRST_COMMIT_MS / 1000


def test_modification_time_of_a_file_is_not_shown_as_the_time_of_a_commit(entries: dict[str, dict[str, Any]]) -> None:
    assert "committed_at" not in entries["log_segment"]
    assert entries["log_segment"]["modified_at"] == COPIED_S


@pytest.mark.slow
def test_page_of_a_backlog_does_not_state_the_age_of_a_commit_that_is_not_the_last(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_driver_bases(monkeypatch)
    events = FollowedTable(tmp_path / "events", max_versions_per_run=2, checks={"fresh_within_hours": 1})
    events.write(0, 3)
    defs = build_definitions(events.settings)
    refresh_table(defs, events.settings, events.table, events.instance, log_level="ERROR")
    pages = events.instance.fetch_observations(dg.AssetKey(["events", "delta_log"]), limit=9).records
    seen = [page.asset_observation for page in pages if page.asset_observation is not None]
    shown = {
        each.metadata["latest_version"].value: "The last commit is" in str(each.metadata["health"]) for each in seen
    }
    assert shown == {1: False, 3: True}
