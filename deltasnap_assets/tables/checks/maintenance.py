"""The jobs that never run automatically: they prune the store of a table, and write a checkpoint into its log.

Each is one job for all tables, with a partition per table: Dagster describes every job to its UI, and a job costs as
much as three assets.
"""

# No `from __future__ import annotations` here: Dagster inspects the annotation of `context` and rejects a string.
# ruff: noqa: I002

from collections.abc import Callable

import dagster as dg
from pydantic import Field

from deltasnap_assets.quantities import DAY_MS, HOUR_MS, bytes_text, counted
from deltasnap_assets.runs.planning.names import CHECKPOINT_JOB, PRUNE_JOB
from deltasnap_assets.runs.planning.partitions import key_of, version_partitions, versions_in_order
from deltasnap_assets.runs.run_progress import progress_logged
from deltasnap_assets.settings.config import Settings
from deltasnap_assets.settings.table_settings import TABLE_TAG, TableSettings
from deltasnap_assets.spark.session.failures import using_spark
from deltasnap_assets.tables.assets.steps import SNAPSHOTS_KEY
from deltasnap_assets.tables.due_checkpoint import write_checkpoint
from deltasnap_assets.tables.run_snapshots import RunSnapshots
from deltasnap_assets.texts import secrets_hidden
from deltasnap_core.support import system_clock


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


@secrets_hidden()
def _prune_store(context: dg.OpExecutionContext, config: PruneConfig) -> None:
    snapshots = _snapshots_of(context)
    table = _table_of(context, snapshots).name
    with progress_logged(context.instance, context.run, PRUNE_JOB):
        report = snapshots.store.prune(
            table,
            keep=config.keep,
            keep_generations=config.keep_generations,
            min_age_ms=int(config.min_age_hours * HOUR_MS),
        )
    partitions = version_partitions(table).name or ""
    stored = frozenset(snapshots.store.versions(table))
    for version in versions_in_order(context.instance.get_dynamic_partitions(partitions)):
        # Also those of an earlier prune that ended before it removed their partitions.
        if version in report.versions or (version < report.pruned_before and version not in stored):
            context.instance.delete_dynamic_partition(partitions, key_of(version))
    num_fleets = snapshots.store.prune_fleet_history(system_clock() - int(config.keep_fleet_days * DAY_MS))
    context.log.info(
        f"Removed {counted(len(report.versions), 'version')}, {counted(len(report.generations), 'replaced table')}, "
        f"{counted(report.num_files, 'file')} ({bytes_text(report.size_in_bytes)}), "
        f"and {counted(num_fleets, 'old fleet')}."
    )


class CheckpointConfig(dg.Config):
    """What to write. By default: a checkpoint of the latest version."""

    version: int | None = Field(default=None, ge=0, description="The version; null: the latest.")


@secrets_hidden()
def _write_checkpoint(context: dg.OpExecutionContext, config: CheckpointConfig) -> None:
    snapshots = _snapshots_of(context)
    table = _table_of(context, snapshots)
    with using_spark(table.name), progress_logged(context.instance, context.run, CHECKPOINT_JOB):
        context.log.info(write_checkpoint(snapshots, table, config.version))


def prune_job(settings: Settings) -> dg.JobDefinition:
    """Return the job `deltasnap_prune`: it removes old versions and unreferenced files of a table from the store.

    It also removes the partitions of these versions. Dagster's event log keeps their materializations, so they are not
    materialized again.
    """
    description = "Removes old versions of a table and unreferenced files from the snapshot store."
    return _job_of(_prune_store, PRUNE_JOB, "deltasnap_prune_store", description, settings)


def checkpoint_job(settings: Settings) -> dg.JobDefinition:
    """Return the job `deltasnap_checkpoint`: it writes a checkpoint into the log. It never runs automatically."""
    description = "Writes a checkpoint into the log of a table, so that readers can skip earlier commits."
    return _job_of(_write_checkpoint, CHECKPOINT_JOB, "deltasnap_write_checkpoint", description, settings)


def _job_of(
    step: Callable[..., None], name: str, op_name: str, description: str, settings: Settings
) -> dg.JobDefinition:
    """Return a job of one step with a partition per table. It tags its runs like those of the table's job.

    op_name: of the step, a key in the configuration of a run.
    """
    op = dg.op(
        name=settings.own_name(op_name),
        out=dg.Out(dg.Nothing),
        required_resource_keys={settings.own_name(SNAPSHOTS_KEY)},
    )(step)
    tables = dg.PartitionedConfig(
        partitions_def=dg.StaticPartitionsDefinition([table.name for table in settings.tables]),
        run_config_for_partition_key_fn=lambda _: {},
        tags_for_partition_key_fn=lambda table: {TABLE_TAG: table},
    )
    return dg.GraphDefinition(name=settings.own_name(name), node_defs=[op]).to_job(
        description=description,
        config=tables,
        executor_def=dg.in_process_executor,
    )


def _snapshots_of(context: dg.OpExecutionContext) -> RunSnapshots:
    (key,) = context.op_def.required_resource_keys
    snapshots: RunSnapshots = getattr(context.resources, key)
    return snapshots


def _table_of(context: dg.OpExecutionContext, snapshots: RunSnapshots) -> TableSettings:
    """Return the table of a run. Errors: dg.Failure if it has none."""
    name = context.run.tags.get(TABLE_TAG)
    if name is None:
        expected = f"expected a table: choose a partition of {context.job_name}, or set the tag {TABLE_TAG}"
        raise dg.Failure(expected, allow_retries=False)
    return snapshots.table(name)
