"""Small random limits of memory and of jobs: they decide how an answer is computed, never which."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import cache
from importlib import import_module
from pkgutil import walk_packages
from random import Random
from types import ModuleType
from typing import Any
from unittest.mock import patch

import deltasnap_core
from deltasnap_core.replay import engine
from deltasnap_core.replay.driver import held_files
from deltasnap_core.replay.driver.held_files import MemoryBudget
from deltasnap_core.snapshot import delta_log
from deltasnap_core.snapshot.snapshot_options import SnapshotOptions
from deltasnap_core.store import snapshot_store
from deltasnap_core.store.format.change_sets import ChangePolicy
from tests import checkpoint_files

_COUNTS = (0, 1, 2, 3, 7)
_FROM_1 = (1, 2, 3, 7)
_BYTES = (0, 1, 100, 200, 400, 800, 1600)
_LIMITS: dict[str, tuple[int, ...]] = {
    "log.commits.commit_batch.LARGE_COMMIT_BYTES": _BYTES,
    "log.commits.commit_batch._MAX_PIECES": _COUNTS,
    "log.commits.commit_reader.IN_MEMORY_BYTES": (8_000, 10_000, 12_000),  # a larger commit may be refused
    "log.commits.commit_reader.MEASURED_BYTES": (*_BYTES, 1 << 29, 1 << 29),
    "log.commits.commit_reader.COMMITS_AT_ONCE": _FROM_1,
    "log.commits.commit_pieces.PIECE_BYTES": _BYTES[1:],
    "log.commits.commit_reader._PIECE_BYTES": _BYTES[1:],
    "log.commits.action_lines._LINES_TO_READ_EXACTLY": _COUNTS[1:],
    "log.commits.commit_scan._SMALL_BYTES": _BYTES,
    "log.commits.commit_scan._FILES_AT_ONCE": _FROM_1,
    "log.commits.commit_scan._HEAD_BYTES": _BYTES[1:],
    "log.commits.commit_scan._HEAD_LINES": _COUNTS,
    "log.checkpoints.verified_parquet.BATCH_ROWS": _COUNTS,
    "log.checkpoints.verified_parquet._BATCH_BYTES": _BYTES,
    "log.checkpoints.parquet_footer._TAIL_BYTES": (8, 9, 100, 1000),
    "log.listing.log_segment_builder._LOOK_BACK_VERSIONS": _COUNTS,
    "log.listing.log_segment_builder._MAX_HINT_BYTES": (0, 20, 1000),
    "log.polling.new_commits._MAX_PROBES": _FROM_1,
    "rules.texts.json_lines._BLOCK_BYTES": _BYTES,
    "replay.spark.state_reconstruction._BROADCAST_BYTES": _BYTES,
    "snapshot.segment_refresh._COMMITS_BEFORE_NEWER_CHECKPOINT": _COUNTS,
    "snapshot.delta_log._MAX_TABLES_KEPT": _COUNTS,
    "snapshot.checkpoints.checkpoint_writer.ACTIONS_A_SIDECAR": _FROM_1,
    "store.format.shared_documents.INLINE_BYTES": _BYTES,
    "store.format.shared_documents.PATCH_BYTES": _BYTES,
    "store.rows.row_groups.ROWS_A_GROUP": _FROM_1,
    "store.rows.spark_rows.BROADCAST_ROWS": _COUNTS,
    "store.rows.spark_rows.SINGLE_TASK_ROWS": _COUNTS,
    "store.rows.spark_rows.ROWS_A_FILE": _FROM_1,
    "store.rows.spark_rows.MAX_KEYS": _COUNTS,
    "scan.row_joins._MAX_BROADCAST_ROWS": _COUNTS,
    "scan.skipping.data_skipping._MAX_ALTERNATIVES": _COUNTS,
}
"""Values to choose from, by the module and the name of the constant."""

_KEPT = 0.4
"""The share of limits that keep their value."""


@contextmanager
def small_limits(seed: int) -> Iterator[dict[str, Any]]:
    """Replace limits by small ones. The seed determines them. Yield the new values by name."""
    rng = Random(f"limits {seed}")
    chosen: dict[str, Any] = {}
    with ExitStack() as patches:

        def put(module: ModuleType, name: str, value: Any, shown: Any) -> None:
            patches.enter_context(patch.object(module, name, value))
            chosen[name] = shown

        for path, values in _LIMITS.items():
            value, is_kept = rng.choice(values), rng.random() < _KEPT
            module, _, name = f"deltasnap_core.{path}".rpartition(".")
            own = import_module(module)
            if not is_kept:
                before = getattr(own, name)
                holders = [own] if name.startswith("_") else [m for m in _modules() if vars(m).get(name) == before]
                for holder in holders:
                    put(holder, name, value, value)
        most = {question: rng.choice((0, 3, 10, limit.most)) for question, limit in engine.LIMITS.items()}
        limits = {question: replace(limit, most=most[question]) for question, limit in engine.LIMITS.items()}
        put(engine, "LIMITS", limits, [*most.values()])
        budget = rng.choice((0, 200, 1000, 1 << 28))
        put(held_files, "MEMORY_BUDGET", MemoryBudget(budget), budget)
        policy = ChangePolicy(
            base_fraction=rng.choice((0.01, 0.25, 2)), least_rows=rng.choice((*_COUNTS, 20)), fan_in=rng.choice((2, 3))
        )
        put(snapshot_store, "ChangePolicy", lambda: policy, policy)
        options = SnapshotOptions(cached_counts_from=rng.choice(_COUNTS), snapshot_partitions=rng.choice((None, 1, 3)))
        put(delta_log, "SnapshotOptions", lambda: options, options)
        for name in ("PARTS", "ROWS_A_GROUP"):
            rows = rng.choice(_FROM_1)
            put(checkpoint_files, name, rows, rows)
        yield chosen


@cache
def _modules() -> list[ModuleType]:
    """Return every module of the core. One that is loaded later would keep a small limit."""
    return [import_module(found.name) for found in walk_packages(deltasnap_core.__path__, "deltasnap_core.")]
