"""Options for loading the snapshots of a table."""

from __future__ import annotations

from dataclasses import dataclass

from deltasnap_core.redaction import safe_repr
from deltasnap_core.replay.engine import EngineUse
from deltasnap_core.rules.texts.statistics_schema import StatsPolicy


@safe_repr
@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotOptions:
    """Options for the snapshots of a table. None: use the session's property, otherwise Delta's default.

    load_stats:     whether `all_files` and `state` have the statistics of each file. False: they are null, which avoids
                    reading the largest column of a log. `computed_state` counts records in both cases.
    validate_state: whether a state without protocol or metadata is an error (ActionNotFoundError). False: read as much
                    of a damaged log as possible; the protocol is checked only if there is one.
                    None: `spark.databricks.delta.stateReconstructionValidation.enabled`, otherwise True.
    check_pages:    whether `all_files`, `state` and `tombstones` first read every page that they scan, in a separate
                    Spark job. If a checkpoint is damaged, they then fall back to an older one or to the commits, as
                    `computed_state` does. If False, running such a frame on a damaged checkpoint raises Spark's
                    exception.
    cache_state:    whether Spark caches the `state` of the current snapshot after its first computation, and whether
                    the measures of its files are kept to compute the state of the next version: 130 bytes per file in
                    this process, or 50 bytes in Spark's storage.
    engine:         auto: the driver answers for small tables, Spark for the others (see `replay/engine.py`). spark:
                    Spark always answers.
    cached_counts_from: the minimum number of actions in a checkpoint for Spark to cache its measures. Reading a smaller
                    checkpoint again is as fast as caching it.
    snapshot_partitions: the number of shuffle partitions for actions, if the commits are so large that a shuffle is
                    needed. None: `spark.databricks.delta.snapshotPartitions`, otherwise Spark's default.
    """

    load_stats: bool = True
    validate_state: bool | None = None
    check_pages: bool = False
    cache_state: bool = True
    engine: EngineUse = "auto"
    cached_counts_from: int = 50_000
    snapshot_partitions: int | None = None

    @property
    def stats(self) -> StatsPolicy:
        """The statistics that `all_files` and `state` have."""
        return StatsPolicy.ALL if self.load_stats else StatsPolicy.NONE
