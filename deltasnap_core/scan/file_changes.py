"""The net changes between two versions: added and removed files."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from deltasnap_core.log.history.delta_history_manager import DeltaHistory
from deltasnap_core.once import once
from deltasnap_core.redaction import safe_repr
from deltasnap_core.replay.spark.session.spark_failures import translated
from deltasnap_core.rules.deletion_vector_ids import vector_id_sql
from deltasnap_core.rules.paths import path_key_sql
from deltasnap_core.rules.texts.sql_text import exact_sum_sql
from deltasnap_core.rules.texts.statistics_schema import StatisticPath
from deltasnap_core.scan.scan import Scan
from deltasnap_core.scan.scanned_table import ScannedTable

T = TypeVar("T")


@safe_repr
@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeSummary:
    """The numbers of added and removed files, with bytes.

    rearranged_files: added files whose commits had `dataChange` false: their rows were in other files before. It
                      includes files of commits that are gone, because a checkpoint does not state it.
    files_with_other_vector: files that got another deletion vector: rows were deleted, none were added.
    """

    added_files: int
    added_bytes: int
    removed_files: int
    removed_bytes: int
    rearranged_files: int
    files_with_other_vector: int

    @property
    def is_append_only(self) -> bool:
        """Whether the rows of the added files are the only change, so that a scan of them is the increment."""
        return self.removed_files == 0 and self.rearranged_files == 0

    @property
    def why_not_append_only(self) -> tuple[str, ...]:
        """Why the rows of the added files are not exactly the new rows; empty if they are."""
        rewritten = self.removed_files - self.files_with_other_vector
        reasons = (
            (rewritten, "files were removed: rows were deleted, or rewritten into added files"),
            (self.files_with_other_vector, "files have a new deletion vector: their rows are not new"),
            (self.rearranged_files, "files only rearrange rows that existed before or were added in between"),
        )
        return tuple(f"{count} {reason}" for count, reason in reasons if count)


@safe_repr
class FileChanges:
    """The net change of a table's files from one version to another.

    The second version may be the earlier one. Immutable.
    A file that was added and removed in between is not included. A file that was added again with other statistics or
    tags, but the same deletion vector, counts as unchanged.
    """

    def __init__(
        self,
        table: ScannedTable,
        before: DataFrame,
        after: DataFrame,
        *,
        from_version: int,
        to_version: int,
        commits: Sequence[DeltaHistory],
        log_files: Sequence[str] = (),
        stored_files: Sequence[str] = (),
        removes: DataFrame | None = None,
    ) -> None:
        """Create the changes.

        table:   at `to_version`.
        before, after: the files of the two versions, with the columns of AddFile.
        removes: if `to_version` is the earlier one: every tombstone of the later one, with the columns of RemoveFile.
        commits: see the attribute.
        log_files, stored_files: the files (URLs) that Spark reads for both, of a log and of a snapshot store. An error
                 names the one that is damaged.
        """
        self._table = table
        self._before = before
        self._after = after
        self._removes = removes
        self._read_files = (log_files, stored_files)
        self.from_version = from_version
        self.to_version = to_version
        self.commits = tuple(sorted(commits, key=lambda commit: commit.version, reverse=to_version < from_version))
        """The commits between the versions, in the direction of the change.

        If `to_version` is the earlier one, these are the commits to undo. Commits that the log no longer has are left
        out.
        """

    def __repr__(self) -> str:
        return f"FileChanges({self.from_version} to {self.to_version})"

    @once
    def added(self) -> DataFrame:
        """The files of `to_version` that `from_version` does not have; the columns of ALL_FILES_SCHEMA."""
        return self._without(self._after, self._before)

    @once
    def removed(self) -> DataFrame:
        """The files of `from_version` that `to_version` does not have; the columns of ALL_FILES_SCHEMA."""
        return self._without(self._before, self._after)

    @once
    def summary(self) -> ChangeSummary:
        """The numbers of added and removed files, and whether the change is append-only; one Spark job.

        Errors: CorruptLogError, CorruptStoreError.
        """
        came, went = (
            files.selectExpr(f"{flag} as came", f"{self._path_key} as path_key", "size", "dataChange")
            for files, flag in ((self._added_by_commits, "true"), (self.removed, "false"))
        )
        by_path = came.unionAll(went).groupBy("path_key").agg(
            F.expr("count_if(came)").alias("added_files"),
            F.expr(exact_sum_sql("if(came, size, 0)")).alias("added_bytes"),
            F.expr("count_if(not came)").alias("removed_files"),
            F.expr(exact_sum_sql("if(came, 0, size)")).alias("removed_bytes"),
            F.expr("count_if(came and not dataChange)").alias("rearranged_files"),
        )  # fmt: skip
        sums = ("added_files", "added_bytes", "removed_files", "removed_bytes", "rearranged_files")
        both = "count_if(added_files > 0 and removed_files > 0) as files_with_other_vector"
        counted = by_path.selectExpr(*(f"{exact_sum_sql(name)} as {name}" for name in sums), both)
        with translated(*self._read_files):
            (row,) = counted.collect()
        return ChangeSummary(**{name: int(number) for name, number in row.asDict().items()})  # of decimals

    def scan_added(self, where: str | None = None, columns: Sequence[str] | None = None) -> Scan:
        """Return a scan of the added files, as Snapshot.scan.

        Their rows are the increment if `summary.is_append_only`; otherwise see `summary.why_not_append_only`.
        """
        return Scan(self._table, _AddedFiles(self.added, self._read_files), where=where, columns=columns)

    @property
    def _path_key(self) -> str:
        return path_key_sql("path", self._table.table_path)

    @property
    def _added_by_commits(self) -> DataFrame:
        """The added files with the `dataChange` of the commits between the versions, which may go backwards."""
        if self._removes is None:
            return self.added
        undone = self._joined(self.added, self._removes, "left", "dataChange as _removed")
        return undone.withColumn("dataChange", F.coalesce("_removed", "dataChange"))

    def _without(self, files: DataFrame, others: DataFrame) -> DataFrame:
        return self._joined(files, others, "left_anti")

    def _joined(self, files: DataFrame, others: DataFrame, how: str, *columns: str) -> DataFrame:
        """Return files joined with the same files among others. columns: of the others."""
        key = self._path_key, vector_id_sql("deletionVector")
        keys = others.selectExpr(*(f"{sql} as _key{number}" for number, sql in enumerate(key)), *columns)
        condition = [F.expr(sql).eqNullSafe(F.col(f"_key{number}")) for number, sql in enumerate(key)]
        return files.join(keys, condition, how)


@dataclass(frozen=True, slots=True)
class _AddedFiles:
    """The added files, as `ScannedFiles`. read_files: the files of a log and of a store that Spark reads for them."""

    added: DataFrame
    read_files: tuple[Sequence[str], Sequence[str]]

    def frame(self) -> DataFrame:
        return self.added

    def run(self, _: frozenset[StatisticPath], query: Callable[[DataFrame], T]) -> T:
        with translated(*self.read_files):
            return query(self.added)

    def totals(self) -> None:
        return None
