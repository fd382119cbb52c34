"""Text such as `${env:HOME}` in predicates and partition values: Spark's replacement of variables changes nothing."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from deltasnap_core import DeltaLog, SnapshotOptions
from deltasnap_core.errors import PredicateError
from deltasnap_core.replay.engine import EngineUse

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TEXTS = ["${env:HOME}", "plain", "a ${spark.app.name} b", "${", "it's ${system:user.dir}", "$${x}", "${x y}"]

pytestmark = pytest.mark.spark


def table(folder: Path) -> None:
    """Write a table with two files for each text, which is also the partition value."""
    rows = pa.table({"id": list(range(len(TEXTS))), "s": TEXTS, "p": TEXTS})
    for mode in ("error", "append"):
        write_deltalake(folder, rows, partition_by=["p"], mode=mode)


def literal(text: str) -> str:
    return "'{}'".format(text.replace("'", "''"))


@pytest.mark.parametrize("engine", ["auto", "spark"])
@pytest.mark.parametrize("name", ["s", "p"])
def test_predicate_finds_rows_with_its_text(spark: SparkSession, tmp_path: Path, name: str, engine: EngineUse) -> None:
    table(tmp_path / "t")
    snapshot = DeltaLog.for_table(spark, tmp_path / "t", options=SnapshotOptions(engine=engine)).snapshot
    form = {"s": "s = {}", "p": "p in ({}) and length(p) > 0 /* ${{env:HOME}} */"}[name]
    scans = {text: snapshot.scan(form.format(literal(text))) for text in TEXTS}
    assert {text: scan.to_arrow()["s"].to_pylist() for text, scan in scans.items()} == {t: [t, t] for t in TEXTS}
    assert scans["${env:HOME}"].report.files_after_statistics < 2 * len(TEXTS)


def test_changed_rows_that_hold_the_text_are_found(spark: SparkSession, tmp_path: Path) -> None:
    table(tmp_path / "t")
    for where in ("s = '${env:HOME}'", "p = '${env:HOME}'"):
        changes = DeltaLog.for_table(spark, tmp_path / "t").row_changes(0, 1, where=where)
        assert [row.s for row in changes.collect()] == ["${env:HOME}"] * 2


def test_problem_of_a_predicate_neither_replaces_nor_moves(spark: SparkSession, tmp_path: Path) -> None:
    table(tmp_path / "t")
    snapshot = DeltaLog.for_table(spark, tmp_path / "t").snapshot
    for where in ("s = '${env:HOME}' and length(s, 5) = 1", "id = ${env:HOME}", "s = '${env:HOME}' and s.x = 1"):
        with pytest.raises(PredicateError) as raised:
            snapshot.scan(where)
        assert str(Path.home()) not in raised.value.reason
        if "length" in where:
            assert raised.value.position == where.index("length")


def test_statement_of_optimize_has_no_variable_and_selects_its_partition(spark: SparkSession, tmp_path: Path) -> None:
    table(tmp_path / "t")
    snapshot = DeltaLog.for_table(spark, tmp_path / "t").snapshot
    rows, found = snapshot.scan().to_df(), snapshot.tables.optimize_candidates.collect()
    selected = {row.partition.p: rows.where(row.statement.partition(" WHERE ")[2]).collect() for row in found}
    assert {text: [row.s for row in each] for text, each in selected.items()} == {text: [text] * 2 for text in TEXTS}
    assert not any("${" in row.statement for row in found)
