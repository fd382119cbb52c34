"""The net changes between two versions: added and removed files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Never

from pyspark.sql import DataFrame, functions as F

from deltasnap_core.errors import DeltaSnapError
from deltasnap_core.log.history.delta_history_manager import DeltaHistory
from deltasnap_core.once import once
from deltasnap_core.protocol.properties.retention import KEEP_ALL
from deltasnap_core.redaction import safe_repr
from deltasnap_core.replay.fallback import Fallback
from deltasnap_core.replay.spark.session.grouping import aggregated
from deltasnap_core.replay.spark.session.spark_failures import translated
from deltasnap_core.rules.file_actions import vector_id_sql
from deltasnap_core.rules.paths import path_key_sql
from deltasnap_core.rules.texts.sql_text import exact_sum_sql
from deltasnap_core.rules.texts.statistics_schema import StatisticPath
from deltasnap_core.scan.scan import Scan
from deltasnap_core.scan.scan_options import ScanOptions
from deltasnap_core.scan.version import Files, ReadFiles, Version

_SUMMED = "added_files", "added_bytes", "removed_files", "removed_bytes", "rearranged_files"


@safe_repr
@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeSummary:
    """The numbers of added and removed files, with bytes.

    rearranged_files: added files whose last add has `dataChange` false: their rows were in other files before. It
                      includes files of commits that are gone, because a checkpoint does not state it, and new files
                      that a later commit added again with `dataChange` false, for example with new statistics.
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
        before: Fallback[Version],
        after: Fallback[Version],
        *,
        commits: Sequence[DeltaHistory],
        options: ScanOptions | None = None,
    ) -> None:
        """Create the changes. before, after: the two versions. commits: see the attribute."""
        self._table = after.version.scanned(options)
        self.from_version, self.to_version = before.version.number, after.version.number
        is_forward = self.from_version <= self.to_version
        self._before, self._after = (each.run(lambda version: version.all_files) for each in (before, after))
        first, second = before.version.read_files, after.version.read_files
        self._read_files = (*first[0], *second[0]), (*first[1], *second[1])
        self._undone = None if is_forward else before.run(lambda version: version.tombstones(KEEP_ALL))
        self.commits = tuple(sorted(commits, key=lambda commit: commit.version, reverse=not is_forward))
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
        after, before = "side = 'after'", "side = 'before'"
        by_file = aggregated(
            self._actions_of_both,
            ("path_key", "vector"),
            F.expr(f"count_if({after}) as added_files"),
            F.expr(f"{exact_sum_sql(f'if({after}, size, 0)')} as added_bytes"),
            F.expr(f"count_if({before}) as removed_files"),
            F.expr(f"{exact_sum_sql(f'if({before}, size, 0)')} as removed_bytes"),
            F.expr(f"count_if({after} and not dataChange) as rearranged"),
            F.expr("max(if(side = 'undone', dataChange, null)) as undone"),
        )
        rearranged = "case undone when true then 0 when false then added_files else rearranged end as rearranged_files"
        net = by_file.where("added_files = 0 or removed_files = 0").selectExpr("*", rearranged)
        sums = [f"{exact_sum_sql(name)} as {name}" for name in _SUMMED]
        by_path = aggregated(net, ("path_key",), *map(F.expr, sums))
        both = "count_if(added_files > 0 and removed_files > 0) as files_with_other_vector"
        counted = by_path.selectExpr(*sums, both)
        with translated(*self._read_files):
            (row,) = counted.collect()
        return ChangeSummary(**{name: int(number) for name, number in row.asDict().items()})  # of decimals

    def scan_added(self, where: str | None = None, columns: Sequence[str] | None = None) -> Scan:
        """Return a scan of the added files, as Snapshot.scan.

        Their rows are the increment if `summary.is_append_only`; otherwise see `summary.why_not_append_only`.
        """
        added = _AddedFiles(all_files_with_stats=self.added, read_files=self._read_files)
        return Scan(self._table, Fallback[Files](added), where=where, columns=columns)

    @property
    def _key(self) -> tuple[str, str]:
        """SQL for the path and the id of the deletion vector, which identify a file."""
        return path_key_sql("path", self._table.table_path), vector_id_sql("deletionVector")

    @property
    def _actions_of_both(self) -> DataFrame:
        """Return side, path_key, vector, size and dataChange of all files; side: before, after or undone.

        Going backwards, a file counts with the `dataChange` of the commit that is undone.
        """
        key = f"{self._key[0]} as path_key", f"{self._key[1]} as vector"
        sides = {"before": self._before, "after": self._after, "undone": self._undone}
        found = [
            files.selectExpr(f"'{side}' as side", *key, "size", "dataChange")
            for side, files in sides.items()
            if files is not None
        ]
        return reduce(DataFrame.unionAll, found)

    def _without(self, files: DataFrame, others: DataFrame) -> DataFrame:
        keys = others.selectExpr(*(f"{sql} as _key{number}" for number, sql in enumerate(self._key)))
        condition = [F.expr(sql).eqNullSafe(F.col(f"_key{number}")) for number, sql in enumerate(self._key)]
        return files.join(keys, condition, "left_anti")


@dataclass(frozen=True, slots=True, kw_only=True)
class _AddedFiles:
    """The added files. They mix two versions, so nothing replaces a damaged file."""

    all_files_with_stats: DataFrame
    read_files: ReadFiles

    def files(
        self,
        columns: Sequence[str] | None = None,
        *,
        skipping: frozenset[StatisticPath] = frozenset(),  # noqa: ARG002 - they are in the JSON of the files
    ) -> DataFrame:
        return self.all_files_with_stats.select("*" if columns is None else list(columns))

    def without(self, error: DeltaSnapError) -> Never:
        raise error
