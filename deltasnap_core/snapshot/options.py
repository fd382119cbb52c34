"""How snapshots of a table are to be loaded."""

from __future__ import annotations

from dataclasses import dataclass

from deltasnap_core.redaction import safe_repr
from deltasnap_core.replay.engine import EngineUse
from deltasnap_core.replay.stats_policy import StatsPolicy


@safe_repr
@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotOptions:
    """What a caller may choose about the snapshots of a table. None: what the session's property says, or Delta does.

    load_stats:     whether `all_files` and `state` carry the statistics of each file; False leaves them null, which
                    spares reading the largest column of a log. `computed_state` counts records all the same.
    validate_state: whether a state without protocol or metadata is an error (ActionNotFoundError). False lets one
                    look at what a damaged log still holds; the checks of the protocol then apply where there is one.
                    None: `spark.databricks.delta.stateReconstructionValidation.enabled`, else True.
    check_pages:    whether `all_files`, `state` and `tombstones` first read every page that they will scan, in a Spark
                    job of its own. A damaged checkpoint is then left for an older one, or for the commits, as by
                    `computed_state`. Otherwise damage shows when the caller runs the frame, as Spark's own exception.
    cache_state:    whether Spark keeps the `state` of the current snapshot once it was computed; and whether the digest
                    of its files is kept, to compute the state of the next version from: in this process 130 bytes a
                    file, in Spark's storage 50.
    engine:         auto: the driver answers what fits into it, Spark everything else (see `replay/engine.py`). spark:
                    Spark answers every question.
    cached_counts_from: of how many actions, at least, a checkpoint is whose digest Spark keeps. Those of a smaller one
                    are read again in the time that it takes to keep them.
    snapshot_partitions: into how many partitions actions are shuffled, where the commits are too large to do without
                    a shuffle. None: `spark.databricks.delta.snapshotPartitions`, else as Spark does.
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
        """What of the statistics `all_files` and `state` carry."""
        return StatsPolicy.ALL if self.load_stats else StatsPolicy.NONE
