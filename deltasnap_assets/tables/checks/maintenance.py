"""The job that prunes the store of a table."""

# No `from __future__ import annotations` here: Dagster inspects the annotation of `context` and rejects a string.
# ruff: noqa: I002

import dagster as dg
from pydantic import Field

from deltasnap_assets.quantities import bytes_text, counted
from deltasnap_assets.runs.planning.partitions import key_of, version_partitions
from deltasnap_assets.settings.config import TABLE_TAG, TableSettings
from deltasnap_assets.tables.run_snapshots import RunSnapshots
from deltasnap_assets.texts import secrets_hidden
from deltasnap_core import system_clock

_HOUR_MS = 3_600_000
_DAY_MS = 24 * _HOUR_MS


class PruneConfig(dg.Config):
    """What to keep. By default: every version of the current table, and nothing else."""

    keep: int | None = Field(default=None, ge=1, description="How many of the latest versions to keep; null: all.")
    keep_generations: int = Field(
        default=1,
        ge=1,
        description="For a table that was dropped and created again: how many of the latest tables to keep.",
    )
    min_age_hours: float = Field(
        default=24,
        ge=0,
        description="Minimum age of files without a version before they are removed; must exceed the longest run.",
    )
    keep_fleet_days: float = Field(
        default=400, ge=1, description="How many days of the history of the fleet, which all tables share, to keep."
    )


@dg.op(out=dg.Out(dg.Nothing))
@secrets_hidden()
def _prune_store(
    context: dg.OpExecutionContext, config: PruneConfig, snapshots: dg.ResourceParam[RunSnapshots]
) -> None:
    table = context.run.tags[TABLE_TAG]
    report = snapshots.store.prune(
        table,
        keep=config.keep,
        keep_generations=config.keep_generations,
        min_age_ms=int(config.min_age_hours * _HOUR_MS),
    )
    partitions = version_partitions(table).name or ""
    for version in report.versions:
        context.instance.delete_dynamic_partition(partitions, key_of(version))
    num_fleets = snapshots.store.prune_fleet_history(system_clock() - int(config.keep_fleet_days * _DAY_MS))
    context.log.info(
        f"Removed {counted(len(report.versions), 'version')}, {counted(len(report.generations), 'replaced table')}, "
        f"{counted(report.num_files, 'file')} ({bytes_text(report.size_in_bytes)}), "
        f"and {counted(num_fleets, 'old fleet')}."
    )


def prune_job(table: TableSettings) -> dg.JobDefinition:
    """Return the job `<table>_prune`: it removes old versions and left-over files from the store, and their partitions.

    Dagster's event log keeps the materializations of these versions, so they are not materialized again.
    """
    name = f"{table.name}_prune"
    # Dagster inspects the op once for all tables: see `steps`.
    step = _prune_store.with_replaced_properties(name=f"{name}_store")
    return dg.GraphDefinition(name=name, node_defs=[step]).to_job(
        description=f"Removes old versions of {table.name} and left-over files from the snapshot store.",
        tags={TABLE_TAG: table.name},
        executor_def=dg.in_process_executor,
    )
