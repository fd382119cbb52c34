"""`all_files` and `tombstones` of many versions as plain rows, in one computation for a range of versions."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import DataFrame, functions as F

from deltasnap_core.protocol.properties.retention import Retention
from deltasnap_core.replay.spark.reading.file_action_layout import FULL
from deltasnap_core.replay.spark.state_reconstruction import ADD_COLUMNS, NEXT_VERSION, REMOVE_COLUMNS
from deltasnap_core.rules.expiry import kept_after_sql


def rows_by_version(
    first_state: DataFrame | None, changes: DataFrame | None, first: int, last: int
) -> DataFrame | None:
    """Return the reconciled file actions of each version from first to last: version (long), add, remove, path.

    first_state: FULL, of version `first`, one row per key; None: no rows.
    changes:     version and FULL, of the later versions; None: none. Rows of the state without changes are repeated for
                 each version, and not shuffled.
    """
    if first_state is None:
        return None if changes is None else _repeated(_lives(changes, last))
    at_first = first_state.select(F.lit(first).cast("long").alias("version"), *FULL.columns)
    if changes is None:
        return _repeated(at_first.withColumn("until", F.lit(last).cast("long")))
    keys = changes.select(*FULL.key).distinct()
    untouched = FULL.join(at_first, keys, how="left_anti", broadcast=False)
    touched = FULL.join(at_first, keys, how="left_semi", broadcast=False)
    moving = _lives(
        touched.select("version", *FULL.columns).unionByName(changes.select("version", *FULL.columns)), last
    )
    until_last = untouched.withColumn("until", F.lit(last).cast("long"))
    return _repeated(until_last.select(*moving.columns).unionByName(moving))


def all_files_by_version(rows: DataFrame) -> DataFrame:
    """Return the live files of each version: the columns of AddFile, and version."""
    return rows.where("add.path is not null").selectExpr(*ADD_COLUMNS, "version")


def tombstones_by_version(rows: DataFrame, retentions: Mapping[int, Retention]) -> DataFrame:
    """Return the tombstones of each version that it keeps: the columns of RemoveFile, and version.

    retentions: by version, which tombstones it keeps.
    """
    first = min(retentions)
    times = F.array(*(F.lit(retentions[version].expired_until).cast("long") for version in sorted(retentions)))
    until = rows.withColumn("until", F.element_at(times, (F.col("version") - first + 1).cast("int")))
    kept = until.where(f"until is null or {kept_after_sql('until', f'({FULL.deleted_at})')}")
    return kept.where(f"not ({FULL.is_add})").selectExpr(*REMOVE_COLUMNS, "version")


def _lives(actions: DataFrame, last: int) -> DataFrame:
    """Return the actions with `until` added: the last version at which an action is the newest of its key."""
    return actions.withColumn("until", F.expr(f"coalesce({NEXT_VERSION} - 1, {last}L)"))


def _repeated(lives: DataFrame) -> DataFrame:
    return lives.select(F.explode(F.sequence("version", "until")).alias("version"), "add", "remove", "path")
