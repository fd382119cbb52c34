"""The assets of one table: the table itself (external), and five assets with a partition for each version.

Each of the five can be materialized alone or with the others, for one version or a range. The first one that needs the
store writes the whole range to it in one pass, and the others read it. They differ only in the metadata of each
version: one function per asset, listed in `_ASSETS`.
"""

# No `from __future__ import annotations` here: Dagster inspects the annotation of `context` and rejects a string.
# ruff: noqa: I002

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

import dagster as dg

from deltasnap_assets.checks.facts import CountedFiles
from deltasnap_assets.checks.registry import COLUMN_CHECKS, ROWS_EXPECTED, checks_of
from deltasnap_assets.runs.planning.names import asset_key
from deltasnap_assets.runs.planning.partitions import (
    key_of,
    keys_read_once,
    known_versions,
    version_partitions,
    versions_of_keys,
)
from deltasnap_assets.runs.run_progress import progress_logged
from deltasnap_assets.settings.table_settings import TABLE_ASSET, TableSettings
from deltasnap_assets.spark.session.failures import using_spark
from deltasnap_assets.tables.assets.cleaned_up_versions import without_cleaned_up
from deltasnap_assets.tables.assets.delta_log_asset import code_references, delta_log_asset
from deltasnap_assets.tables.assets.steps import asset_step, snapshots_of
from deltasnap_assets.tables.checks.run_facts import RunFacts
from deltasnap_assets.tables.due_checkpoint import write_due_checkpoint
from deltasnap_assets.tables.pages.asset_pages import (
    all_files_page,
    changes_page,
    log_segment_page,
    state_page,
    tombstones_page,
)
from deltasnap_assets.tables.pages.column_page import column_page, rows_page
from deltasnap_assets.tables.pages.metadata import (
    Entries,
    all_files_metadata,
    commit_metadata,
    computed_by_metadata,
    computed_state_metadata,
    file_columns,
    log_segment_metadata,
    operation_metadata,
    sample_metadata,
    stored_metadata,
    tombstones_metadata,
)
from deltasnap_assets.tables.pages.table_observation import last_vacuum_ms, recent_commits, table_observation
from deltasnap_assets.tables.run_snapshots import RunSnapshots
from deltasnap_core import (
    ALL_FILES_SCHEMA,
    TOMBSTONES_SCHEMA,
    CorruptLogError,
    DeltaSnapError,
    SnapshotState,
)
from deltasnap_core.support import CommitSummary

_NO_PARTITION = (
    "No version of this run has a partition any more: they were pruned, or the log was rolled back or replaced. Choose "
    "versions that have one."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Run:
    """The versions of a table that one asset is materialized for, ascending, and the resources it uses."""

    table: TableSettings
    versions: Sequence[int]
    snapshots: RunSnapshots
    report: Callable[[str, int, int], None]

    def states(self) -> dict[int, SnapshotState]:
        """Return the computed states of the versions; missing ones are written to the store first."""
        self.snapshots.ensure_stored(self.table, self.versions, self.report)
        return self.snapshots.versions.states(self.table.name, self.versions)

    def counted(self) -> CountedFiles | None:
        """Return facts about the files of the newest stored version; None: it is not a version of this run."""
        is_newest = max(self.versions) == max(self.snapshots.stored_versions(self.table))
        return self.snapshots.facts.of(self.table, self.report) if is_newest else None

    def computed_by(self) -> dict[int, Entries]:
        """Return the engine that computed each version, as metadata."""
        manifests = self.snapshots.ensure_stored(self.table, self.versions, self.report)
        return {version: computed_by_metadata(manifest) for version, manifest in manifests.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class _VersionAsset:
    """One of the five assets: its spec, and the function that returns the metadata of each version.

    columns: the columns of its rows; None: the asset has no rows.
    """

    name: str
    after: str
    kinds: frozenset[str]
    description: str
    describe: Callable[[_Run], dict[int, Entries]]
    columns: dg.TableSchemaMetadataValue | None = None


def _log_segment(run: _Run) -> dict[int, Entries]:
    segments = run.snapshots.log_segments(run.table, run.versions)
    return {v: log_segment_page(segment) | log_segment_metadata(segment) for v, segment in segments.items()}


def _reconstructed_state(run: _Run) -> dict[int, Entries]:
    manifests, states = run.snapshots.ensure_stored(run.table, run.versions, run.report), run.states()
    entries_of = {}
    for version, manifest in manifests.items():
        commit = manifest.commit or CommitSummary(info=None)
        before = states.get(version - 1) or run.snapshots.state_if_stored(run.table, version - 1)
        changed = changes_page(before, states[version]) | stored_metadata(manifest)
        sample = sample_metadata(commit.sample)
        entries_of[version] = commit_metadata(commit.info) | changed | sample | operation_metadata(commit.info)
    return entries_of


def _computed_state(run: _Run) -> dict[int, Entries]:
    states, computed_by = run.states(), run.computed_by()
    entries_of = {
        version: state_page(state) | computed_by[version] | computed_state_metadata(state)
        for version, state in states.items()
    }
    if (newest := max(states)) == max(run.snapshots.stored_versions(run.table)):
        facts = RunFacts(table=run.table, snapshots=run.snapshots, versions=run.versions)
        if checks_of(run.table.checks, COLUMN_CHECKS):
            entries_of[newest] |= column_page(facts.columns, run.table.checks)
        if checks_of(run.table.checks, [ROWS_EXPECTED]):
            with suppress(CorruptLogError):  # a check of the log reports it
                entries_of[newest] |= rows_page(facts.rows_of_last_day)
    return entries_of


def _all_files(run: _Run) -> dict[int, Entries]:
    states, computed_by = run.states(), run.computed_by()
    entries_of = {version: computed_by[version] | all_files_metadata(state) for version, state in states.items()}
    if (counted := run.counted()) is not None:
        newest = max(states)
        entries_of[newest] |= all_files_page(newest, states[newest], counted)
    return entries_of


def _tombstones(run: _Run) -> dict[int, Entries]:
    computed_by = run.computed_by()
    entries_of = {version: computed_by[version] | tombstones_metadata(state) for version, state in run.states().items()}
    if (counted := run.counted()) is not None:
        newest = max(entries_of)
        vacuum = last_vacuum_ms(recent_commits(run.snapshots, run.table, newest))
        entries_of[newest] |= tombstones_page(newest, counted, last_vacuum_ms=vacuum)
    return entries_of


_ASSETS = (
    _VersionAsset(
        name="log_segment",
        after=TABLE_ASSET,
        kinds=frozenset({"json"}),
        description="The files of the log that make up a version.",
        describe=_log_segment,
    ),
    _VersionAsset(
        name="reconstructed_state",
        after="log_segment",
        kinds=frozenset({"pyspark", "parquet"}),
        description="The actions in force at a version: files, tombstones, protocol, metadata, transactions, domains.",
        describe=_reconstructed_state,
    ),
    _VersionAsset(
        name="computed_state",
        after="reconstructed_state",
        kinds=frozenset({"json"}),
        description="A summary of a version: files, bytes, records, histograms, transactions, protocol and schema.",
        describe=_computed_state,
    ),
    _VersionAsset(
        name="all_files",
        after="reconstructed_state",
        kinds=frozenset({"pyspark", "table"}),
        description="The live files of a version, with the columns of Delta's `add` action.",
        describe=_all_files,
        columns=file_columns(ALL_FILES_SCHEMA),
    ),
    _VersionAsset(
        name="tombstones",
        after="reconstructed_state",
        kinds=frozenset({"pyspark", "table"}),
        description="The files removed and not yet expired at a version, with the columns of Delta's `remove` action.",
        describe=_tombstones,
        columns=file_columns(TOMBSTONES_SCHEMA),
    ),
)
_SHOWS_THE_TABLE = "all_files"  # the last asset that reads the store: its materialization completes the page


def table_assets(table: TableSettings) -> list[dg.AssetsDefinition]:
    """Return the table itself, unless the project defines it, and the five assets derived from it."""
    own = [] if table.attach else [delta_log_asset(table)]
    return [*own, *(_definition(table, asset) for asset in _ASSETS)]


def _dep(table: TableSettings, asset: str) -> dg.AssetDep:
    """Return the dependency on an asset of the table. An asset of the project may have any partitions, or none."""
    mapping = dg.AllPartitionMapping() if table.attach and asset == TABLE_ASSET else None
    return dg.AssetDep(asset_key(table, asset), partition_mapping=mapping)


def _definition(table: TableSettings, asset: _VersionAsset) -> dg.AssetsDefinition:
    """Return an asset with one partition per version. One run can materialize any range of them."""
    is_parquet = table.materialize_as == "table" and "table" in asset.kinds
    columns = {} if asset.columns is None else {"dagster/column_schema": asset.columns}

    spec = dg.AssetSpec(
        asset_key(table, asset.name),
        deps=[_dep(table, asset.after)],
        group_name=table.group_name,
        partitions_def=version_partitions(table.name),
        kinds={"pyspark", "parquet"} if is_parquet else set(asset.kinds),
        owners=table.owners,
        tags=table.tags,
        description=asset.description,
        metadata={**columns, **code_references(table)},
    )

    return asset_step(table, spec, partial(_materialize, table, asset))


def _materialize(
    table: TableSettings, asset: _VersionAsset, context: dg.AssetExecutionContext
) -> Iterator[dg.Output[None]]:
    versions, snapshots = versions_of_keys(context.partition_keys, table.name), snapshots_of(context, table)
    if not versions:
        raise DeltaSnapError(_NO_PARTITION)
    work = f"{table.name}/{asset.name}"
    with using_spark(table.name), progress_logged(context.instance, context.run, work):
        versions = without_cleaned_up(context, snapshots, table, versions)
        run = _Run(table=table, versions=versions, snapshots=snapshots, report=partial(_report, context))
        entries_of = asset.describe(run)
        shows_table = asset.name == _SHOWS_THE_TABLE
        page = table_observation(context.instance, snapshots, table, versions) if shows_table else None
    with keys_read_once():
        for version, entries in entries_of.items():
            context.add_asset_metadata(entries, partition_key=key_of(version))
    yield dg.Output(None)
    if (newest := _newest_again(context, table, entries_of)) is not None:
        context.log_event(newest)
    if shows_table:
        with using_spark(table.name), progress_logged(context.instance, context.run, work):
            if _wrote_due_checkpoint(context, run):  # the page shows how many commits follow it
                page = table_observation(context.instance, snapshots, table, versions)
    if page is not None:
        context.log_event(page)


def _newest_again(
    context: dg.AssetExecutionContext, table: TableSettings, entries_of: Mapping[int, Entries]
) -> dg.AssetMaterialization | None:
    """Return the event to record after a run of several versions that end with the newest; None: not such a run.

    Dagster records the versions of a run in no fixed order and shows the event recorded last as the state of the asset.
    A run of old versions records nothing about the newest one, which would trigger what is downstream of it.
    """
    newest = max(entries_of, default=None)
    if newest is None or len(entries_of) == 1:
        return None
    keys = context.instance.get_dynamic_partitions(version_partitions(table.name).name or "")
    if newest < max(known_versions(keys), default=newest):
        return None
    description = "The newest version of this run, recorded last to be shown as the state of the asset."
    return dg.AssetMaterialization(
        context.asset_key, partition=key_of(newest), metadata=entries_of[newest], description=description
    )


def _wrote_due_checkpoint(context: dg.AssetExecutionContext, run: _Run) -> bool:
    written = write_due_checkpoint(run.snapshots, run.table, max(run.versions))
    if written is None:
        return False
    message, is_well = written
    (context.log.info if is_well else context.log.warning)(message)
    return is_well


def _report(context: dg.AssetExecutionContext, what: str, done: int, total: int) -> None:
    """Log the progress of the store as a message of the run."""
    context.log.info(f"{what} ({done} of {total} versions done)")
