"""The jobs that never run automatically: they prune the store of a table, and write a checkpoint into its log."""

# No `from __future__ import annotations` here: Dagster inspects the annotation of `context` and rejects a string.
# ruff: noqa: I002

from collections.abc import Mapping
from typing import Any

import dagster as dg
from pydantic import Field

from deltasnap_assets.quantities import bytes_text, counted
from deltasnap_assets.runs.planning.partitions import key_of, version_partitions, versions_in_order
from deltasnap_assets.settings.config import TABLE_TAG, TableSettings
from deltasnap_assets.spark.session.failures import using_spark
from deltasnap_assets.tables.due_checkpoint import write_checkpoint
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


@dg.op(name="deltasnap_prune_store", out=dg.Out(dg.Nothing))
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
    stored = frozenset(snapshots.store.versions(table))
    for version in versions_in_order(context.instance.get_dynamic_partitions(partitions)):
        # Also those of an earlier prune that ended before it removed their partitions.
        if version in report.versions or (version < report.pruned_before and version not in stored):
            context.instance.delete_dynamic_partition(partitions, key_of(version))
    num_fleets = snapshots.store.prune_fleet_history(system_clock() - int(config.keep_fleet_days * _DAY_MS))
    context.log.info(
        f"Removed {counted(len(report.versions), 'version')}, {counted(len(report.generations), 'replaced table')}, "
        f"{counted(report.num_files, 'file')} ({bytes_text(report.size_in_bytes)}), "
        f"and {counted(num_fleets, 'old fleet')}."
    )


class CheckpointConfig(dg.Config):
    """What to write. By default: a checkpoint of the latest version."""

    version: int | None = Field(default=None, ge=0, description="The version; null: the latest.")


@dg.op(name="deltasnap_write_checkpoint", out=dg.Out(dg.Nothing))
@secrets_hidden()
def _write_checkpoint(
    context: dg.OpExecutionContext, config: CheckpointConfig, snapshots: dg.ResourceParam[RunSnapshots]
) -> None:
    table = snapshots.table(context.run.tags[TABLE_TAG])
    with using_spark(table.name):
        context.log.info(write_checkpoint(snapshots, table, config.version))


def prune_job(table: TableSettings, resources: Mapping[str, Any]) -> dg.JobDefinition:
    """Return the job `<table>_prune`: it removes old versions and left-over files from the store, and their partitions.

    Dagster's event log keeps the materializations of these versions, so they are not materialized again.
    """
    description = f"Removes old versions of {table.name} and left-over files from the snapshot store."
    return _job_of(table, _prune_store, f"{table.name}_prune", "store", description, resources)


def checkpoint_job(table: TableSettings, resources: Mapping[str, Any]) -> dg.JobDefinition:
    """Return the job `<table>_checkpoint`: it writes a checkpoint into the log. Nothing starts it but its user."""
    description = f"Writes a checkpoint into the log of {table.name}, so that readers can skip earlier commits."
    return _job_of(table, _write_checkpoint, f"{table.name}_checkpoint", "log", description, resources)


def _job_of(
    table: TableSettings, op: dg.OpDefinition, name: str, target: str, description: str, resources: Mapping[str, Any]
) -> dg.JobDefinition:
    """Return a job of one step. All tables share the op, and the resources: Dagster would copy a job without them."""
    step = dg.NodeInvocation(name=op.name, alias=f"{name}_{target}")
    return dg.GraphDefinition(name=name, node_defs=[op], dependencies={step: {}}).to_job(
        description=description,
        tags={TABLE_TAG: table.name},
        executor_def=dg.in_process_executor,
        resource_defs=dict(resources),
    )
