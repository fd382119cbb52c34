"""The assets of one table: the table itself (external), and five for each of its versions.

Each of the five can be materialized alone or with any others, for one version or a range. Whichever needs the store
first writes the whole range to it, in one pass; for the others it is there then.
"""

# No `from __future__ import annotations` here: Dagster reads the annotation of `context` and takes no text for it.
# ruff: noqa: I002

from collections.abc import Callable, Iterator, Mapping
from datetime import timedelta
from typing import Any, cast

import dagster as dg

from deltasnap_assets.runs.partitions import key_of, version_partitions, versions_of
from deltasnap_assets.settings.config import TableSettings
from deltasnap_assets.tables.delta_log_asset import code_references, delta_log_asset
from deltasnap_assets.tables.io_manager import IO_MANAGER_KEY
from deltasnap_assets.tables.metadata import (
    Entries,
    all_files_metadata,
    column_schema,
    commit_metadata,
    computed_state_metadata,
    log_segment_metadata,
    operation_metadata,
    sample_metadata,
    stored_metadata,
    tombstones_metadata,
)
from deltasnap_assets.tables.newest_again import newest_again
from deltasnap_assets.tables.pages import all_files_page, changes_page, log_segment_page, state_page, tombstones_page
from deltasnap_assets.tables.run_snapshots import RunSnapshots
from deltasnap_assets.tables.table_observation import last_vacuum_ms, recent_commits, table_observation
from deltasnap_assets.texts import secrets_hidden
from deltasnap_core import ALL_FILES_SCHEMA, TOMBSTONES_SCHEMA, CommitSummary

_Materialization = Iterator[dg.Output[None]]
_LEAST_WINDOW = timedelta(minutes=1)  # Dagster takes no shorter one


def table_assets(table: TableSettings) -> list[dg.AssetsDefinition | dg.SourceAsset]:
    """`<table>/delta_log` and the five assets made from it."""
    return [delta_log_asset(table), *(make(table) for make in _ASSETS)]


def _log_segment(table: TableSettings) -> dg.AssetsDefinition:
    @_version_asset(
        table,
        "log_segment",
        after="delta_log",
        kinds={"json"},
        description="The files of the log that make up a version.",
        freshness_policy=freshness_policy(table),
    )
    def log_segment(context: dg.AssetExecutionContext, snapshots: dg.ResourceParam[RunSnapshots]) -> _Materialization:
        segments = snapshots.log_segments(table, versions_of(context.partition_keys))
        told = {v: log_segment_page(segment) | log_segment_metadata(segment) for v, segment in segments.items()}
        return _materialized(context, told)

    return log_segment


def _reconstructed_state(table: TableSettings) -> dg.AssetsDefinition:
    @_version_asset(
        table,
        "reconstructed_state",
        after="log_segment",
        kinds={"pyspark", "parquet"},
        description="The actions in force at a version: files, tombstones, protocol, metadata, transactions, domains.",
    )
    def reconstructed_state(
        context: dg.AssetExecutionContext, snapshots: dg.ResourceParam[RunSnapshots]
    ) -> _Materialization:
        versions = versions_of(context.partition_keys)
        manifests = snapshots.stored(table, versions, _reporter(context))
        states = snapshots.computed_states(table, versions, _reporter(context))
        metadata = {}
        for version, manifest in manifests.items():
            commit = manifest.commit or CommitSummary()
            before = states.get(version - 1) or snapshots.stored_state(table, version - 1)
            changed = changes_page(before, states[version]) | stored_metadata(manifest)
            told = commit_metadata(commit.info) | changed | sample_metadata(commit.sample)
            metadata[version] = told | operation_metadata(commit.info)
        return _materialized(context, metadata)

    return reconstructed_state


def _computed_state(table: TableSettings) -> dg.AssetsDefinition:
    @_version_asset(
        table,
        "computed_state",
        after="reconstructed_state",
        kinds={"pyspark", "json"},
        description="What a version amounts to: files, bytes, records, histograms, transactions, protocol and schema.",
    )
    def computed_state(
        context: dg.AssetExecutionContext, snapshots: dg.ResourceParam[RunSnapshots]
    ) -> _Materialization:
        states = snapshots.computed_states(table, versions_of(context.partition_keys), _reporter(context))
        told = {version: computed_state_metadata(state) | state_page(state) for version, state in states.items()}
        return _materialized(context, told)

    return computed_state


def _all_files(table: TableSettings) -> dg.AssetsDefinition:
    @_version_asset(
        table,
        "all_files",
        after="reconstructed_state",
        kinds={"pyspark", "parquet" if table.materialize_as == "table" else "table"},
        description="The live files of a version, with the columns of Delta's `add` action.",
        metadata={"dagster/column_schema": column_schema(ALL_FILES_SCHEMA)},
    )
    def all_files(context: dg.AssetExecutionContext, snapshots: dg.ResourceParam[RunSnapshots]) -> _Materialization:
        states = snapshots.computed_states(table, versions_of(context.partition_keys), _reporter(context))
        metadata = {version: all_files_metadata(state) for version, state in states.items()}
        newest = max(states)
        facts = snapshots.file_facts(table, newest)
        metadata[newest] |= all_files_page(facts)
        commits = recent_commits(snapshots, table, newest)
        page = table_observation(context.instance, snapshots, table, newest, commits, facts)
        return _materialized(context, metadata, page)

    return all_files


def _tombstones(table: TableSettings) -> dg.AssetsDefinition:
    @_version_asset(
        table,
        "tombstones",
        after="reconstructed_state",
        kinds={"pyspark", "parquet" if table.materialize_as == "table" else "table"},
        description="The files removed and not yet expired at a version, with the columns of Delta's `remove` action.",
        metadata={"dagster/column_schema": column_schema(TOMBSTONES_SCHEMA)},
    )
    def tombstones(context: dg.AssetExecutionContext, snapshots: dg.ResourceParam[RunSnapshots]) -> _Materialization:
        states = snapshots.computed_states(table, versions_of(context.partition_keys), _reporter(context))
        metadata = {version: tombstones_metadata(state) for version, state in states.items()}
        newest = max(states)
        vacuum = last_vacuum_ms(recent_commits(snapshots, table, newest))
        metadata[newest] |= tombstones_page(snapshots.tombstone_facts(table, newest), last_vacuum_ms=vacuum)
        return _materialized(context, metadata)

    return tombstones


_ASSETS = (_log_segment, _reconstructed_state, _computed_state, _all_files, _tombstones)


def _version_asset(
    table: TableSettings,
    name: str,
    *,
    after: str,
    kinds: set[str],
    description: str,
    metadata: Mapping[str, Any] | None = None,
    freshness_policy: dg.FreshnessPolicy | None = None,
) -> Callable[[Callable[..., _Materialization]], dg.AssetsDefinition]:
    """What the five assets have in common: a partition a version, any range of them in one run."""
    asset = dg.asset(
        key=[table.name, name],
        deps=[[table.name, after]],
        group_name=table.name,
        partitions_def=version_partitions(table.name),
        backfill_policy=dg.BackfillPolicy.single_run(),
        io_manager_key=IO_MANAGER_KEY,
        dagster_type=cast(
            dg.DagsterType, dg.Nothing
        ),  # nothing passes from asset to asset: what they make is in the store
        kinds=kinds,
        owners=list(table.owners),
        tags=table.tags,
        description=description,
        metadata={"dagster/table_name": table.name, **(metadata or {}), **code_references(table)},
        freshness_policy=freshness_policy,
    )
    return lambda materialize: asset(secrets_hidden()(materialize))


def freshness_policy(table: TableSettings) -> dg.FreshnessPolicy | None:
    """Return what Dagster is to expect of `log_segment`, which is materialized as commits arrive; None: nothing."""
    hours = table.checks.fresh_within_hours
    if hours is None:
        return None
    return dg.FreshnessPolicy.time_window(fail_window=max(timedelta(hours=hours), _LEAST_WINDOW))


def _reporter(context: dg.AssetExecutionContext) -> Callable[[str, int, int], None]:
    """Progress of the store as messages of the run."""

    def report(what: str, done: int, total: int) -> None:
        context.log.info(f"{what} ({done} of {total} versions done)")

    return report


def _materialized(
    context: dg.AssetExecutionContext, metadata: Mapping[int, Entries], page: dg.AssetObservation | None = None
) -> _Materialization:
    """End a materialization: each version with its metadata, and the newest of the table recorded last.

    page: what is to be recorded of the table itself.
    """
    for version, entries in metadata.items():
        context.add_asset_metadata(entries, partition_key=key_of(version))
    yield dg.Output(None)
    if (again := newest_again(context.instance, context.asset_key, metadata)) is not None:
        context.log_event(again)
    if page is not None:
        context.log_event(page)
