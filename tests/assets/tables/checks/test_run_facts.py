from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from deltasnap_assets.checks.check_settings import CheckSettings
from deltasnap_assets.checks.commits import recent_commit_times
from deltasnap_assets.checks.registry import SCHEMA_UNCHANGED
from deltasnap_assets.settings.config import Settings
from deltasnap_assets.settings.table_settings import TableSettings
from deltasnap_assets.spark.session.run_session import RunSession
from deltasnap_assets.tables.checks.run_facts import HISTORY, RunFacts
from deltasnap_assets.tables.run_snapshots import RunSnapshots
from deltasnap_core import DeltaLog, SnapshotState, SnapshotStore
from deltasnap_core.log.history.delta_history_manager import DeltaHistoryManager
from deltasnap_core.protocol.log_files.file_names import checksum_file, commit_file
from tests.assets.tables.pages.metadata_builders import state
from tests.builders import (
    LOG_PATH,
    MemoryLogStore,
    add,
    commit_info,
    commits,
    metadata,
    mtime_of,
    protocol,
    timed_protocol,
    write_log,
)
from tests.checkpoint_files import write_checkpoint
from tests.driver_bases import use_driver_bases


def wider() -> SnapshotState:
    metadata = state().metadata
    assert metadata is not None
    schema = json.loads(metadata.schema_string or "")
    schema["fields"].append({"name": "new", "type": "string", "nullable": True, "metadata": {}})
    return state(metadata=replace(metadata, schema_string=json.dumps(schema)))


def facts_of(states: Mapping[int, SnapshotState | None], *versions: int) -> RunFacts:
    """Return the facts of a run of versions. states: of all stored versions; None: unknown."""
    snapshots: Any = SimpleNamespace(
        stored_versions=lambda _: list(states), state_if_stored=lambda _, version: states[version]
    )
    table: Any = None
    return RunFacts(table=table, snapshots=snapshots, versions=versions)


def test_schema_changes_are_known_for_versions_with_a_known_predecessor() -> None:
    facts = facts_of({3: state(), 4: state(), 5: wider(), 6: state(metadata=None)}, 3, 4, 5, 6)
    assert facts.schema_changes == {4: (), 5: ("column new added (string)",)}


def test_schema_is_compared_with_the_stored_version_before_though_versions_between_are_not_stored() -> None:
    facts = facts_of({3: state(), 7: wider()}, 7)
    (verdict,) = SCHEMA_UNCHANGED.judge(facts, CheckSettings()).values()
    expected = "A version after 3, up to 7, changed the schema: column new added (string)."
    assert (verdict.passed, verdict.description) == (False, expected)


def test_usual_interval_is_that_of_the_last_commits() -> None:
    history = DeltaHistoryManager(MemoryLogStore(commits(0, 4)), LOG_PATH, configuration=dict)
    found = {most: recent_commit_times(history, most) for most in (1, 4, 5, 6)}
    assert found == {most: [mtime_of(version) for version in range(max(5 - most, 0), 5)] for most in found}


def test_earlier_versions_whose_state_is_unknown_are_left_out() -> None:
    stored = [*range(1, HISTORY + 4)]
    unknown = HISTORY + 1
    facts = facts_of({version: None if version == unknown else state() for version in stored}, HISTORY + 2)
    assert [*facts.states] == [version for version in range(2, HISTORY + 3) if version != unknown]
    assert facts.schema_changes == {HISTORY + 2: ()}


@pytest.mark.parametrize(("has_commit", "expected"), [(True, ("in_commit_timestamp",)), (False, ())])
def test_time_in_a_checksum_is_compared_if_the_log_has_the_commit(
    has_commit: bool, expected: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_driver_bases(monkeypatch)
    created = [timed_protocol(), metadata(configuration={"delta.enableInCommitTimestamps": "true"}), add("a")]
    log = write_log(tmp_path / "t", {v: [commit_info(inCommitTimestamp=v), *created[: 3 - 3 * v]] for v in range(2)})
    write_checkpoint(log, 0, "classic", created)
    counts = {"tableSizeBytes": 1, "numFiles": 1, "numMetadata": 1, "numProtocol": 1}
    (log / checksum_file(0)).write_text(json.dumps({**counts, "inCommitTimestampOpt": 7}))
    if not has_commit:
        (log / commit_file(0)).unlink()
    table = TableSettings(name="t", path=str(tmp_path / "t"))
    SnapshotStore.open(None, tmp_path / "store").write_range("t", DeltaLog.for_table(None, table.path), 0, 1)
    settings = Settings(storage=str(tmp_path / "store"), tables=(table,))
    facts = RunFacts(table=table, snapshots=RunSnapshots(settings, RunSession({})), versions=(0,))
    assert tuple(found.field for found in facts.checksum_differences[0]) == expected


def test_checksum_written_after_its_version_was_stored_is_read_with_the_next_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_driver_bases(monkeypatch)
    log = write_log(tmp_path / "t", {0: [protocol(), metadata()], 1: [add("a")], 2: [add("b")]})
    table = TableSettings(name="t", path=str(tmp_path / "t"))
    settings = Settings(storage=str(tmp_path / "store"), tables=(table,))
    SnapshotStore.open(None, tmp_path / "store").write_range("t", DeltaLog.for_table(None, table.path), 0, 2)
    (log / checksum_file(1)).write_text("{}")

    def late(*versions: int) -> int | None:
        snapshots = RunSnapshots(settings, RunSession({}))
        return RunFacts(table=table, snapshots=snapshots, versions=versions).late_checksum

    assert [late(2), late(1, 2), late(1), late(0)] == [1, 1, None, None]


def test_state_of_the_latest_version_is_known_once_it_is_stored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_driver_bases(monkeypatch)
    write_log(tmp_path / "t", {0: [protocol(), metadata()], 1: [add("a")]})
    table = TableSettings(name="t", path=str(tmp_path / "t"))
    settings = Settings(storage=str(tmp_path / "store"), tables=(table,))
    files = []
    for version in range(2):
        log = DeltaLog.for_table(None, table.path)
        SnapshotStore.open(None, tmp_path / "store").write_range("t", log, version, version)
        snapshots = RunSnapshots(settings, RunSession({}))
        state = RunFacts(table=table, snapshots=snapshots, versions=(version,)).loadable_state
        files.append(None if state is None else state.num_of_files)
    assert files == [None, 1]
