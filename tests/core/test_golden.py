"""Golden tests: every golden table, every listed version, every field; and every expected error."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest

from deltasnap_core import DeltaLog, SnapshotOptions
from deltasnap_core.log.commits.commit_reader import read_commits
from deltasnap_core.log.non_file_actions import non_file_actions_by_version
from deltasnap_core.protocol.properties.retention import Retention
from deltasnap_core.replay.spark.reading.action_reader import ActionReader
from deltasnap_core.replay.spark.state_deltas import changes_of_versions, deltas_of_range
from deltasnap_core.replay.spark.state_reconstruction import reconciled_files
from deltasnap_core.rules.texts.statistics_schema import StatsPolicy
from deltasnap_core.snapshot.snapshot import InitialSnapshot
from tests.conftest import FixedClock, golden_folder
from tests.golden import ERRORS, GoldenTable, expected_counts, expected_facts, facts, load_golden_tables
from tests.oracle import counts_of
from tests.thorough import one_in

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [
    pytest.mark.spark,
    pytest.mark.skipif(golden_folder() is None, reason="no golden tables: set DELTASNAP_GOLDEN to their folder"),
]

FOLDER = golden_folder()
TABLES = list(load_golden_tables(FOLDER)) if FOLDER is not None else []
KEEP_ALL = 0
ALL_VERSIONS = "DELTASNAP_ALL_VERSIONS" in os.environ
"""Whether Spark replays each version on its own. Otherwise it replays the first and the last; one pass of Spark below
gives the counts of all, and the driver in `test_held_files` those of the first and last one after each checkpoint."""

LENIENT = {
    "falling back to the commits from 0 (41 rows at 13) is right as well": "we fall back, with a warning",
    "an empty commit file is a commit without actions, or corrupt": "as expected: a commit without actions",
    "a reader that trusts the hint may refuse": "as expected: we do not trust it",
    "an incomplete checkpoint without its commit: version 0, or refuse": "as expected: version 0",
    "metaData without schemaString (required by the spec): a reader may refuse; Spark loads it": "as expected: loaded",
    "file: scheme against no scheme: Spark canonicalizes (0 files at 1); kernels and delta-rs compare the text "
    "(1 file, known bug in their own test lists)": "as expected: canonical",
    "replay from version 0 would succeed; every known reader fails": "as expected: we fail",
    "metaData of the checkpoint at 1 is not that of commits 0..1 (table edited by hand); "
    "the checkpoint's is expected": "as expected: the checkpoint's",
    "schemaString of the checkpoint differs in white space from the commits': compare parsed": "compared parsed",
    "catalog-managed: a reader without a catalog may refuse (unsupported_protocol); the state given is that of the "
    "published commits alone": "as expected: the published commits, with a warning",
}
"""What we do where the protocol, or a table, leaves a choice."""

OTHERWISE = {"derived__checkpoint-truncated-parquet": {10: None, 11: None, 12: None, 13: 41}}
"""Versions that we load where refusing them is expected (and loading allowed), with the records they must have."""


def ids(tables: list[GoldenTable]) -> list[str]:
    return [table.name for table in tables]


LogOf = Callable[[GoldenTable], DeltaLog]


@pytest.fixture
def log_of(spark: SparkSession, clock: FixedClock) -> Iterator[LogOf]:
    in_spark = SnapshotOptions(cache_state=False, engine="spark")
    yield lambda table: DeltaLog.for_table(spark, table.path, clock=clock, options=in_spark)
    DeltaLog.clear_cache()


def test_golden_set_is_complete() -> None:
    assert FOLDER is not None
    assert set(ids(TABLES)) == {path.name for path in (FOLDER / "tables").iterdir()}
    assert len(TABLES) >= 166
    assert sum(len(table.states) + len(table.refusals) for table in TABLES) >= 800


def test_every_ambiguity_of_the_golden_set_has_a_documented_choice() -> None:
    left = {text for table in TABLES for text in table.expected["lenient"]}
    assert {text for text in left if not text.startswith("a reader that does not implement")} <= set(LENIENT)


@pytest.mark.parametrize("table", one_in(12, TABLES), ids=ids(TABLES))
def test_golden_versions_are_as_expected_in_every_field(table: GoldenTable, log_of: LogOf) -> None:
    log = log_of(table)
    versions = sorted(table.states)
    for version in versions if ALL_VERSIONS else dict.fromkeys((*versions[:1], *versions[-1:])):
        state = table.states[version]
        snapshot = log.get_snapshot_at(version, min_file_retention_timestamp=KEEP_ALL)
        found, expected = facts(snapshot), expected_facts(state)
        assert found == expected, f"{table.name} at {version}"
        if state["in_commit_timestamp"] is not None:
            assert snapshot.timestamp == state["in_commit_timestamp"]


@pytest.mark.parametrize("table", TABLES, ids=ids(TABLES))
def test_golden_latest_version_is_as_expected(spark: SparkSession, table: GoldenTable, clock: FixedClock) -> None:
    log = DeltaLog.for_table(spark, table.path, clock=clock)
    otherwise = OTHERWISE.get(table.name, {})
    if table.latest_refusal == "no_table":
        assert isinstance(log.update(), InitialSnapshot)
        assert log.update().computed_state.num_of_files == 0
    elif table.latest_refusal is not None and not otherwise:
        with pytest.raises(ERRORS[table.latest_refusal]):
            _ = log.update().computed_state
    elif otherwise:
        assert log.update().computed_state.num_records == otherwise[log.snapshot.version]
    else:
        version = log.update().version
        assert version == table.expected["latest_version"]
        latest = log.get_snapshot_at(version, min_file_retention_timestamp=KEEP_ALL)
        assert counts_of(latest.computed_state) == expected_counts(table.expected["latest"])


@pytest.mark.parametrize("table", [t for t in TABLES if t.refusals], ids=ids([t for t in TABLES if t.refusals]))
def test_golden_versions_without_a_state_are_rejected_by_category(
    table: GoldenTable, log_of: LogOf, caplog: pytest.LogCaptureFixture
) -> None:
    log = log_of(table)
    otherwise = OTHERWISE.get(table.name, {})
    for version, category in sorted(table.refusals.items()):
        if version in otherwise:
            with caplog.at_level(logging.WARNING):
                state = log.get_snapshot_at(version).computed_state
            assert otherwise[version] in (None, state.num_records)
            assert ".checkpoint.parquet cannot be used" in caplog.text
            continue
        with pytest.raises(ERRORS[category]):
            facts(log.get_snapshot_at(version, min_file_retention_timestamp=KEEP_ALL))


def test_unreadable_golden_tables_still_have_protocol_metadata_and_history(log_of: LogOf) -> None:
    refused = [(t, v) for t in TABLES for v, error in t.refusals.items() if error == "unsupported_protocol"]
    assert len(refused) >= 16
    for table, version in refused:
        log = log_of(table)
        snapshot = log.get_snapshot_at(version)
        assert snapshot.protocol.min_reader_version >= 1
        assert snapshot.metadata.id
        assert snapshot.timestamp > 0
        assert log.history.get_history(limit=1, end=version)[0].version == version


def contiguous_states(table: GoldenTable) -> list[int]:
    """The longest range of versions with a state, from the first one."""
    versions = sorted(table.states)
    run = [version for at, version in enumerate(versions) if version == versions[0] + at]
    return run if len(run) > 1 else []


RANGES = [table for table in TABLES if contiguous_states(table)]


@pytest.mark.parametrize("table", one_in(32, RANGES), ids=ids(RANGES))
def test_golden_range_pass_counts_every_version(table: GoldenTable, log_of: LogOf, spark: SparkSession) -> None:
    log = log_of(table)
    first, *rest = contiguous_states(table)
    start = log.get_snapshot_at(first, min_file_retention_timestamp=KEEP_ALL)
    reader = ActionReader(spark=spark, files=log.context.files, log_path=log.path, stats=StatsPolicy.NUM_RECORDS)
    commits = [log.get_snapshot_at(version).log_segment.last_commit_file for version in rest]
    batch = read_commits(log.context.table_log.store, [commit for commit in commits if commit is not None])
    if len(batch.files) < len(rest):
        pytest.skip("the log has lost commits that checkpoints stand in for")
    actions = reader.commit_actions(batch)
    non_file, by_version = start.log.non_file, non_file_actions_by_version(batch)
    states = {version: (non_file := non_file.advanced(by_version.get(version, ()))) for version in rest}
    retentions = dict.fromkeys((first, *rest), Retention.after(KEEP_ALL))
    changes = None if actions is None else changes_of_versions(actions)
    files = reconciled_files(reader, start.log.loaded)
    deltas = deltas_of_range(files, changes, states, retentions, broadcast=True)
    state, found = start.computed_state, {}
    for version in rest:
        state = deltas[version].applied_to(state)
        found[version] = commit_counts(counts_of(state))
    assert found == {version: commit_counts(expected_counts(table.states[version])) for version in rest}


def commit_counts(values: dict[str, Any]) -> dict[str, Any]:
    """Omit values that checkpoints within a range change: they drop tombstones and statistics, one was edited."""
    changed = ("num_tombstones", "num_records", "table_id")
    return {name: value for name, value in values.items() if name not in changed}
