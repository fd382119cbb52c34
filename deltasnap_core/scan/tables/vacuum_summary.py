"""A summary of the files that VACUUM would delete, by folder and age, and of the versions that would lose files.

`vacuum_candidates` alone decides which files may be deleted.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame, functions as F

from deltasnap_core.redaction import safe_repr
from deltasnap_core.replay.spark.session.grouping import aggregated
from deltasnap_core.rules.texts.sql_text import exact_sum_sql, let_sql

AGES_DAYS = (0, 1, 7, 30, 90, 365)
"""Files are grouped by the greatest of these ages (days) that they have reached."""

EXPIRED = "expired tombstone"
"""The reason of files that an earlier version needs."""

_DAY_MS = 24 * 60 * 60 * 1000


@safe_repr
@dataclass(frozen=True, slots=True, kw_only=True)
class VacuumGroup:
    """Files of one folder with the same reason and a similar age.

    folder:  relative to the table, or a URL; empty: the folder of the table. In a partitioned table it is a partition.
    reason:  as in `MetadataTables.vacuum_candidates`.
    age_days: one of AGES_DAYS, since the file was removed, or an orphan was written; None: unknown.
    size_in_bytes: of the files whose size is known; num_without_size: the number of the others.
    """

    folder: str
    reason: str
    age_days: int | None
    num_files: int
    size_in_bytes: int
    num_without_size: int


@safe_repr
@dataclass(frozen=True, slots=True, kw_only=True)
class VacuumSummary:
    """The effect of VACUUM at the time of the summary.

    retention_ms: files that a version within this time needs are kept.
    deleted:      the groups of files that VACUUM would delete, the largest first.
    protected:    the groups of files that VACUUM would keep although the table no longer uses them, the largest first.
    first_readable_version: versions before it would lose files. It is the last commit that removed one of these files;
                  None: the log has no such commit any more.
    """

    retention_ms: int
    deleted: tuple[VacuumGroup, ...]
    protected: tuple[VacuumGroup, ...]
    first_readable_version: int | None

    @property
    def takes_from_versions(self) -> bool:
        """Whether an earlier version, if the log can still load it, would lose a file. Orphans belong to no version."""
        return any(group.reason == EXPIRED for group in self.deleted)

    @property
    def num_files(self) -> int:
        """The number of files that VACUUM would delete."""
        return sum(group.num_files for group in self.deleted)

    @property
    def size_in_bytes(self) -> int:
        """The bytes of these files, as far as known."""
        return sum(group.size_in_bytes for group in self.deleted)


def vacuum_summary(candidates: DataFrame, events: DataFrame | None, *, retention_ms: int, now_ms: int) -> VacuumSummary:
    """Return the summary of candidates; two Spark jobs.

    candidates: as vacuum_candidates returns them. events: as `Version.events`.
    """
    age = age_days_sql(f"{now_ms}L - unix_millis(coalesce(deletion_timestamp, modification_time))")
    aged = candidates.selectExpr(
        "regexp_extract(path, '^(.*)/', 1) as folder",
        "reason",
        "protected",
        "size",
        f"{age} as age_days",
        f"if(reason = '{EXPIRED}', coalesce(unix_millis(deletion_timestamp), 0L), null) as removed_at",
    )
    groups = (
        aggregated(
            aged,
            ["folder", "reason", "protected", "age_days"],
            F.expr("count(1) as num_files"),
            F.expr(f"{exact_sum_sql('size')} as size_in_bytes"),
            F.expr("count_if(size is null) as num_without_size"),
            F.expr("max(removed_at) as removed_at"),
        )
        .toArrow()
        .to_pylist()
    )
    removed_at = max(
        (g["removed_at"] for g in groups if not g["protected"] and g["removed_at"] is not None), default=None
    )
    return VacuumSummary(
        retention_ms=retention_ms,
        deleted=_groups([group for group in groups if not group["protected"]]),
        protected=_groups([group for group in groups if group["protected"]]),
        first_readable_version=None if removed_at is None else _last_removal(events, removed_at),
    )


def age_days_sql(age: str) -> str:
    """Return SQL for the greatest of AGES_DAYS that an age has reached; null: it is null. age: SQL, in ms."""
    ages = " ".join(f"when age >= {days * _DAY_MS}L then {days}" for days in reversed(AGES_DAYS[1:]))
    return let_sql("age", age, f"case when age is null then null {ages} else 0 end")


def _groups(rows: list[dict[str, Any]]) -> tuple[VacuumGroup, ...]:
    names = VacuumGroup.__dataclass_fields__
    exact = [{**row, "size_in_bytes": int(row["size_in_bytes"])} for row in rows]  # from a decimal
    found = [VacuumGroup(**{name: row[name] for name in names}) for row in exact]
    return tuple(sorted(found, key=lambda g: (-g.size_in_bytes, -g.num_files, g.folder, g.reason, g.age_days or 0)))


def _last_removal(events: DataFrame | None, removed_at: int) -> int | None:
    """Return the last version that removed a file at that time (ms) or before. Earlier versions needed the file."""
    if events is None:
        return None
    is_removal = f"remove is not null and coalesce(remove.deletionTimestamp, 0L) <= {removed_at}L"
    (row,) = events.where(is_removal).agg(F.max("version").alias("version")).collect()
    found: int | None = row.version
    return found
