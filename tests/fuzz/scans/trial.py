"""A random table and its predicates: a scan returns the filtered rows of the whole table, and skips no needed file."""

from __future__ import annotations

import shutil
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import reduce
from pathlib import Path
from random import Random
from typing import Any, TypeVar

from pyspark.sql import DataFrame, SparkSession, functions as F

from deltasnap_core import DeltaLog, DeltaSnapError, Scan, SnapshotStore
from deltasnap_core.replay.spark.reading.action_reader import PARSED
from deltasnap_core.rules.texts.statistics_schema import StatisticPath
from deltasnap_core.scan.physical_schema import logical_schema
from deltasnap_core.scan.planning import condition_on_files
from deltasnap_core.scan.version import frame_of
from deltasnap_core.support import SPARK_FAILURES
from tests.fuzz.scans.predicates import ZONES, RandomPredicates
from tests.fuzz.scans.rewriting import rewrite
from tests.fuzz.scans.tables import ROW, RandomTable, written_table

T = TypeVar("T")
_AT_ONCE, _READ_AT_ONCE = 25, 10
_ZONE, _VARIABLES = "spark.sql.session.timeZone", "spark.sql.variable.substitute"
_EXACTLY = {"timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX", "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS"}


@dataclass(kw_only=True)
class Tried:
    """The result of a table.

    predicates: how many. It also has the failures, how often files were skipped, how many rows were read, and how many
    predicates skipped files without Spark, by partition values and by ranges of values.
    """

    seed: int
    about: list[str]
    predicates: int = 0
    refused: int = 0
    failing: int = 0
    chances: int = 0
    skipped: int = 0
    scanned: int = 0
    wrong: list[str] = field(default_factory=list)


def try_table(seed: int, spark: SparkSession, *, predicates: int, scans: int) -> Tried:
    """Try predicates on the table of a seed: check the selected files for all of them, and the rows for some."""
    rng = Random(seed)
    with tempfile.TemporaryDirectory() as folder, _session(rng, spark) as settings:
        table = written_table(rng, Path(folder) / "table")
        if "p_at" in table.partitions:
            # The writer omits the time zone of a partition's timestamp, which is UTC.
            spark.conf.set(_ZONE, "UTC")
        if rng.random() < 0.8:
            rewrite(rng, table)
        tried = Tried(seed=seed, about=[*settings, *sorted(set(table.about))])
        trial = _Trial(rng, spark, table, tried, Path(folder))
        trial.run(predicates, scans)
    return tried


@contextmanager
def _session(rng: Random, spark: SparkSession) -> Iterator[list[str]]:
    settings = {
        "spark.sql.ansi.enabled": rng.choice(["true", "false"]),
        _ZONE: rng.choice(ZONES),
        "spark.sql.timestampType": rng.choice(["TIMESTAMP_LTZ"] * 5 + ["TIMESTAMP_NTZ"]),
    }
    before = {name: spark.conf.get(name) for name in settings}
    for name, value in settings.items():
        spark.conf.set(name, value)
    try:
        yield [f"{name.rpartition('.')[2]} {value}" for name, value in settings.items()]
    finally:
        for name, kept in before.items():
            spark.conf.set(name, str(kept))


@contextmanager
def _as_written(spark: SparkSession) -> Iterator[None]:
    """Let Spark replace no variables in predicates. Scans must do without."""
    spark.conf.set(_VARIABLES, "false")
    try:
        yield
    finally:
        spark.conf.unset(_VARIABLES)


class _Trial:
    def __init__(self, rng: Random, spark: SparkSession, table: RandomTable, tried: Tried, folder: Path) -> None:
        self._rng, self._spark, self._table, self._tried, self._folder = rng, spark, table, tried, folder
        self._file_of = table.file_of()

    def run(self, predicates: int, scans: int) -> None:
        snapshot = DeltaLog.for_table(self._spark, self._table.path).snapshot
        whole = self._spark.createDataFrame(self._table.live_rows(), logical_schema(snapshot.schema))
        self._compare_whole(whole, snapshot.scan().to_df())
        every = self._stored(snapshot.version) if self._rng.random() < 0.3 else snapshot.scan()
        self._all_rows = every.to_df()
        drawn = RandomPredicates(self._rng, self._table.kinds)
        wheres = list(dict.fromkeys(drawn.draw() for _ in range(predicates)))
        self._tried.predicates = len(wheres)
        sensible = self._scans(every, wheres, whole)
        with _as_written(self._spark):
            matching = self._evaluated(whole, ROW, {where: f"coalesce({where}, false)" for where in sensible})
        files, conditions = self._planned(every, sensible)
        kept = self._evaluated(files, "path", conditions)
        for where in sensible:
            self._compare(where, matching.get(where), kept.get(where), conditions[where])
        chosen = self._rng.sample(sorted(sensible), min(scans, len(sensible)))
        for begin in range(0, len(chosen), _READ_AT_ONCE):
            some = chosen[begin : begin + _READ_AT_ONCE]
            self._read_together({where: sensible[where] for where in some}, matching)

    def _planned(self, every: Scan, scans: dict[str, Scan]) -> tuple[DataFrame, dict[str, str]]:
        """Return the files with which scans of all those predicates plan, and the conditions on them."""
        skipping = {where: scan._skipping for where, scan in scans.items()}
        read = frozenset[StatisticPath]().union(*(each.statistics_read for each in skipping.values()))
        files = every._files.run(lambda files: self._kept(frame_of(files.files(skipping=read), every._table)))
        parsed = PARSED in files.columns
        alike = {
            where: replace(each, statistics_read=read) if each.statistics_read else each
            for where, each in skipping.items()
        }
        conditions = {where: condition_on_files(each, parsed=parsed) or "true" for where, each in alike.items()}
        return files, conditions

    def _kept(self, files: DataFrame) -> DataFrame:
        """Return files, read once; mostly as a local relation, whose expressions Spark evaluates during planning."""
        if PARSED in files.columns:
            return files.localCheckpoint()  # PySpark cannot convert such structs to Arrow
        return self._spark.createDataFrame(files.toArrow())

    def _compare_whole(self, whole: DataFrame, rows: DataFrame) -> None:
        wanted, found = _texts(whole), _texts(rows)
        if wanted != found:
            self._tell("<all rows>", f"too many {list(found - wanted)[:2]}, too few {list(wanted - found)[:2]}")

    def _stored(self, version: int) -> Scan:
        store = SnapshotStore.open(self._spark, self._folder / "store")
        store.write_range("t", DeltaLog.for_table(self._spark, self._table.path), version, version)
        shutil.rmtree(self._table.log)
        self._tried.about.append("stored, log gone")
        return store.scan("t", version)

    def _scans(self, every: Scan, wheres: Sequence[str], whole: DataFrame) -> dict[str, Scan]:
        """Return the scans of valid predicates. A refusal is correct only if Spark refuses the predicate too."""
        scans = {}
        for where in wheres:
            try:
                scans[where] = Scan(every._table, every._files, where=where, totals=every._totals)
            except DeltaSnapError as error:
                self._tried.refused += 1
                try:
                    with _as_written(self._spark):
                        _ = whole.where(where).schema
                except SPARK_FAILURES:
                    continue
                self._tell(where, f"refused: {error}")
            except Exception as error:  # noqa: BLE001 - the fuzzer looks for any error
                self._tell(where, f"{type(error).__name__}: {error}")
        return scans

    def _evaluated(self, rows: DataFrame, key: str, conditions: dict[str, str]) -> dict[str, set[Any]]:
        """Return the rows (by key) for which each condition is true, if Spark can evaluate it on all rows."""
        found: dict[str, set[Any]] = {}
        names = list(conditions)
        for begin in range(0, len(names), _AT_ONCE):
            some = {name: conditions[name] for name in names[begin : begin + _AT_ONCE]}
            found.update(self._tried_together(rows, key, some))
        return found

    def _tried_together(self, rows: DataFrame, key: str, conditions: dict[str, str]) -> dict[str, set[Any]]:
        """Return the same as _evaluated, for a few conditions; if one fails, try each half."""
        names = list(conditions)
        try:
            columns = [F.expr(conditions[name]).alias(f"c{number}") for number, name in enumerate(names)]
            answers = rows.select(F.col(key), *columns).collect()
        except SPARK_FAILURES:
            if len(names) == 1:
                return {}
            halves = (names[: len(names) // 2], names[len(names) // 2 :])
            parts = [self._tried_together(rows, key, {n: conditions[n] for n in half}) for half in halves]
            return parts[0] | parts[1]
        return {name: {row[0] for row in answers if row[number + 1]} for number, name in enumerate(names)}

    def _compare(self, where: str, matching: set[int] | None, kept: set[str] | None, condition: str) -> None:
        if matching is None:
            self._tried.failing += 1
            return
        if kept is None:
            self._tell(where, f"Spark cannot evaluate {condition}")
            return
        wanted = {self._file_of[number] for number in matching}
        if wanted - kept:
            self._tell(where, f"lost {sorted(wanted - kept)} by {condition}")
        self._tried.chances += len(self._table.files) - len(wanted)
        self._tried.skipped += len(self._table.files) - len(kept)

    def _read_together(self, scans: dict[str, Scan], matching: dict[str, set[int]]) -> None:
        """Compare the rows of scans in one job; separately if one fails."""
        try:
            frames = [scan.to_df().select(F.lit(n).alias("n"), ROW) for n, scan in enumerate(scans.values())]
            rows = reduce(DataFrame.unionAll, frames).collect()
        except (DeltaSnapError, *SPARK_FAILURES):
            for where, scan in scans.items():
                self._scan(where, scan, matching.get(where))
            return
        for number, where in enumerate(scans):
            self._compare_rows(where, {row[1] for row in rows if row[0] == number}, matching.get(where))

    def _scan(self, where: str, scan: Scan, matching: set[int] | None) -> None:
        try:
            found = {row[0] for row in scan.to_df().select(ROW).collect()}
        except DeltaSnapError:
            if matching is not None:
                self._tell(where, "a scan fails, and the predicate does not")
            return
        except SPARK_FAILURES as error:
            if matching is not None and not self._fails_on_files(where):
                self._tell(where, f"a scan fails: {error}")
            return
        self._compare_rows(where, found, matching)

    def _fails_on_files(self, where: str) -> bool:
        """Return whether a filter fails without a plan too: Spark evaluates its constants before it reads files."""
        try:
            with _as_written(self._spark):
                self._all_rows.where(where).collect()
        except SPARK_FAILURES:
            self._tried.failing += 1
            return True
        return False

    def _compare_rows(self, where: str, found: set[int], matching: set[int] | None) -> None:
        self._tried.scanned += 1
        if matching is not None and found != matching:
            self._tell(where, f"too many rows {sorted(found - matching)}, too few {sorted(matching - found)}")

    def _tell(self, where: str, what: str) -> None:
        self._tried.wrong.append(f"seed {self._tried.seed} ({', '.join(self._tried.about)}): {where}\n    {what}")


def _texts(rows: DataFrame) -> Counter[str]:
    return Counter(rows.select(F.to_json(F.struct("*"), _EXACTLY).alias("row")).toArrow()["row"].to_pylist())
