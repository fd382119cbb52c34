"""The replay with Arrow matches Spark's queries: keys of paths, measures, groups."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyspark.sql import functions as F

from deltasnap_core.log.commits.action_lines import read_lines
from deltasnap_core.protocol.properties.retention import Retention
from deltasnap_core.protocol.state.file_size_histogram import DEFAULT_BIN_BOUNDARIES
from deltasnap_core.replay.driver.reconciliation import newest_file_actions, with_path_keys, without_keys_of
from deltasnap_core.replay.driver.state_deltas import touched_or_expiring
from deltasnap_core.replay.spark.reading.file_action_layout import measures_sql
from deltasnap_core.replay.spark.reading.schemas import FILE_ACTION_COLUMNS
from deltasnap_core.replay.spark.state_deltas import grouped
from deltasnap_core.rules.expiry import unexpired
from deltasnap_core.rules.totals.aggregates import FileTotals, MeasureGroup, groups_of
from deltasnap_core.rules.totals.measures import MEASURES
from tests.builders import add, remove

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOG = "file:///t/_delta_log"
STATISTICS = (
    '{"numRecords":7,"minValues":{}}',
    '{"numRecords":7}',
    '{"minValues":{"numRecords":3},"numRecords":7}',
    '{ "numRecords" : 7 }',
    '{"numRecords":"7"}',
    '{"numRecords":7.5}',
    '{"numRecords":null}',
    '{"numRecords":9223372036854775807}',
    '{"numRecords":9223372036854775808}',
    '{"minValues":{"numRecords":3}}',
    "no JSON",
    "{}",
    None,
)
VECTOR = {"storageType": "u", "pathOrInlineDv": "ab", "sizeInBytes": 1}
SIZES = (-1, 0, 1, 2**62, *(size + step for size in DEFAULT_BIN_BOUNDARIES for step in (-1, 0, 1)))


def measured(*actions: dict[str, Any], version: int = 0) -> pa.Table:
    lines = read_lines("file:///t/x.json", version, b"\n".join(json.dumps(action).encode() for action in actions))
    return with_path_keys(lines, LOG)


def keys(rows: pa.Table) -> list[str]:
    return sorted(rows["path_key"].to_pylist())


@pytest.mark.slow
def test_measures_and_groups_match_the_query(spark: SparkSession) -> None:
    actions = [add(f"s{i}", stats=stats) for i, stats in enumerate(STATISTICS)]
    actions += [add(f"z{size}", size=size) for size in SIZES]
    counts = (None, -1, 0, 1, 9, 10, 2**31 - 1, 2**40)
    actions += [add(f"v{n}", deletionVector={**VECTOR, **({} if n is None else {"cardinality": n})}) for n in counts]
    actions += [remove("r0"), remove("r1", deletion_timestamp=None)]
    found = measured(*actions)
    text = pa.table({"line": pa.array([json.dumps(action) for action in actions])})
    rows = spark.createDataFrame(text).select(F.from_json("line", FILE_ACTION_COLUMNS).alias("a"))
    rows = rows.selectExpr("a.*").selectExpr(*measures_sql())
    assert rows.toArrow().to_pylist() == found.select(list(MEASURES)).to_pylist()
    expected = FileTotals(MeasureGroup.of_row(row.asDict()) for row in grouped(rows))
    assert FileTotals(groups_of(found)) == expected


def test_groups_cancel_each_other_out_by_their_sign() -> None:
    rows = measured(add("a", size=2**40), remove("b"))
    assert FileTotals([*groups_of(rows), *groups_of(rows, sign=-1)]) == FileTotals()


@pytest.mark.parametrize("last", [3, 2**63 - 1])
def test_newest_action_of_a_file_is_in_the_last_commit_on_the_last_line_and_an_add_wins_over_a_remove(
    last: int,
) -> None:
    newest = [remove("a b"), add("c", size=3), add("c", size=2), remove("c"), add("d", deletionVector=VECTOR)]
    commits = pa.concat_tables(
        [
            measured(add("a%20b", size=1), add("c", size=1), remove("d")),
            measured(*newest, version=last),
        ]
    )
    rows = newest_file_actions(commits).select(["path_key", "dv_id", "size"]).to_pylist()
    assert sorted((row["path_key"], row["dv_id"], row["size"]) for row in rows) == [
        ("a b", "", None),
        ("c", "", 2),
        ("d", "", None),
        ("d", "uab", 1),
    ]


def test_empty_batch_has_no_newest_action() -> None:
    assert newest_file_actions(measured()).num_rows == 0


def test_only_changed_logical_files_are_removed() -> None:
    rows = measured(add("a"), add("a", deletionVector=VECTOR), add("b"))
    assert keys(without_keys_of(rows, measured(remove("a")))) == ["a", "b"]
    assert keys(without_keys_of(rows, measured(remove("c")))) == ["a", "a", "b"]
    assert keys(without_keys_of(rows, measured(add("a"), add("a", deletionVector=VECTOR), add("b")))) == []


def test_expired_tombstones_are_found_by_time() -> None:
    rows = measured(add("a"), remove("b", deletion_timestamp=5), remove("c", deletion_timestamp=6))
    assert keys(unexpired(rows, Retention.after(5))) == ["a", "c"]
    assert keys(unexpired(rows, Retention.after(0))) == ["a", "b", "c"]
    touched = measured(add("a"))
    assert keys(touched_or_expiring(rows, touched, Retention.after(4), Retention.after(5))) == ["a", "b"]
    assert keys(touched_or_expiring(rows, touched, Retention.after(0), Retention.after(6))) == ["a", "b", "c"]
    assert keys(touched_or_expiring(rows, touched, Retention.after(6), Retention.after(6))) == ["a"]
