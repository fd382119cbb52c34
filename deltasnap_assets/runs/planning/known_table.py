"""The facts about a table in a Dagster instance: partitions, materializations, and the last observation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import dagster as dg
from sqlalchemy.exc import IntegrityError

from deltasnap_assets.runs.planning.forks import forks_of_text, materialized_since
from deltasnap_assets.runs.planning.names import (
    CONDITION_TAG,
    DATA_VERSION,
    GENERATION,
    STORING_ASSET,
    asset_key,
    table_key,
    version_keys,
)
from deltasnap_assets.runs.planning.partitions import key_of, version_partitions, versions_in_order
from deltasnap_assets.runs.planning.plan import (
    BEGAN_AFTER_TAG,
    FORKS_TAG,
    TABLE_ID_TAG,
    Known,
    Plan,
    at_data_version,
    observation_of,
    tag_value,
    version_tags,
)
from deltasnap_assets.runs.stores import log_of
from deltasnap_assets.settings.table_settings import TableSettings
from deltasnap_core import LogStatus
from deltasnap_core.support import logger_of

_log = logger_of(__name__)
_IDENTITY = (TABLE_ID_TAG, FORKS_TAG, BEGAN_AFTER_TAG)


def known_of(instance: dg.DagsterInstance, table: TableSettings, *, reads_failed: bool = False) -> Known:
    """Return the facts about a table in an instance. Ignores partition keys that are not versions.

    reads_failed: whether to query the versions that Dagster shows as failed. It takes as long as the other queries.
    """
    partitions = version_partitions(table.name).name or ""
    versions = versions_in_order(instance.get_dynamic_partitions(partitions))
    identity = _identity_of(last_observation(instance, table))
    assets = version_keys(table)
    latest = [record for asset in assets for record in instance.fetch_materializations(asset, limit=1).records]
    done = _materialized(instance, assets, identity)
    return Known(
        versions=versions,
        done=done,
        table_id=identity.get(TABLE_ID_TAG),
        began_after=_began_after(identity),
        forks=forks_of_text(identity.get(FORKS_TAG)),
        last_materialization=max((record.storage_id for record in latest), default=None),
        newest=_with_generation(instance, table, max(done)) if done else None,
        failed=_failed(instance, table, versions) if reads_failed else frozenset(),
    )


def _failed(instance: dg.DagsterInstance, table: TableSettings, versions: Sequence[int]) -> frozenset[int]:
    """Return the versions with a partition that Dagster shows as failed for some asset, as on its pages."""
    partitions, keys = version_partitions(table.name), [key_of(version) for version in versions]
    failed = set[str]()
    for asset in version_keys(table):
        statuses = instance.get_status_by_partition(asset, keys, partitions) or {}
        failed.update(key for key, status in statuses.items() if status is dg.AssetPartitionStatus.FAILED)
    return frozenset(versions_in_order(failed))


def _with_generation(instance: dg.DagsterInstance, table: TableSettings, version: int) -> tuple[int, str] | None:
    """Return a materialized version and its stored generation; None: an earlier release did not record it."""
    asset = asset_key(table, STORING_ASSET)
    filters = dg.AssetRecordsFilter(asset_key=asset, asset_partitions=[key_of(version)])
    for record in instance.fetch_materializations(filters, limit=1).records:
        if (event := record.asset_materialization) is not None and GENERATION in event.metadata:
            return version, str(event.metadata[GENERATION].value)
    return None


def _materialized(
    instance: dg.DagsterInstance, assets: Sequence[dg.AssetKey], identity: Mapping[str, str]
) -> frozenset[int]:
    """Return the versions for which all assets are materialized since the table was created and its log forked."""

    def after(event: int | None) -> frozenset[int]:
        found = [instance.get_materialized_partitions(asset, after_cursor=event) for asset in assets]
        return frozenset(versions_in_order(set.intersection(*found)))

    return materialized_since(forks_of_text(identity.get(FORKS_TAG)), _began_after(identity), after)


def _began_after(identity: Mapping[str, str]) -> int | None:
    return int(identity.get(BEGAN_AFTER_TAG, 0)) or None


def observation_tags(instance: dg.DagsterInstance, table: TableSettings, version: int, table_id: str) -> dict[str, str]:
    """Return the tags of an observation at a stored version. table_id: used if none is known yet."""
    known = known_of(instance, table)
    return version_tags(known.table_id or tag_value(table_id), version, known.began_after, known.forks)


def observed_by_hand(instance: dg.DagsterInstance, table: TableSettings, status: LogStatus) -> dg.AssetObservation:
    """Return the observation after a poll that requests no run: without new commits, the last one again.

    A table that was dropped and created again keeps its known id here: the next plan detects the change.
    """
    last, known = last_observation(instance, table), known_of(instance, table)
    changed = _last_data_change(table, status, last)
    seen = at_data_version(table, observation_of(table, status, known.began_after, known.forks), changed)
    tags = {**seen.tags, TABLE_ID_TAG: known.table_id or seen.tags[TABLE_ID_TAG]}
    observed = last if last is not None and _is_at(last, seen, tags) else seen
    kept = {} if last is None else {k: v for k, v in last.tags.items() if k == CONDITION_TAG}
    return dg.AssetObservation(
        observed.asset_key, description=observed.description, metadata=observed.metadata, tags={**tags, **kept}
    )


def _last_data_change(table: TableSettings, status: LogStatus, last: dg.AssetObservation | None) -> int:
    """Return the last version that changes data. The commits up to the last observation are not read again."""
    entries = {} if last is None else last.metadata
    known = [entries[name].value if name in entries else None for name in ("latest_version", DATA_VERSION)]
    latest, changed = (value if isinstance(value, int) else None for value in known)
    first, log = 0 if latest is None or changed is None else latest + 1, log_of(table)
    found = log.last_data_change(status.listing or log.list(), status.latest, first)
    return found if found is not None else changed or 0


def last_observation(instance: dg.DagsterInstance, table: TableSettings) -> dg.AssetObservation | None:
    """Return the last observation of the table; None: none yet."""
    records = instance.fetch_observations(table_key(table), limit=1).records
    return records[0].asset_observation if records else None


def apply_to_instance(instance: dg.DagsterInstance, table: TableSettings, todo: Plan) -> None:
    """Add and drop the partitions of a plan, and record the plan, before its runs start."""
    partitions = version_partitions(table.name).name or ""
    for version in todo.drop:
        instance.delete_dynamic_partition(partitions, key_of(version))
    keys = [key_of(version) for version in todo.add]
    try:
        instance.add_dynamic_partitions(partitions, keys)
    except IntegrityError:  # another process added some of them in the meantime
        instance.add_dynamic_partitions(partitions, keys)
    record_plan(instance, table, todo)


def partition_requests(
    table_name: str, todo: Plan
) -> tuple[dg.AddDynamicPartitionsRequest | dg.DeleteDynamicPartitionsRequest, ...]:
    """Return the partitions of a plan as requests of a sensor."""
    partitions = version_partitions(table_name)
    drop, add = [key_of(version) for version in todo.drop], [key_of(version) for version in todo.add]
    return (
        *([partitions.build_delete_request(drop)] if drop else []),
        *([partitions.build_add_request(add)] if add else []),
    )


def record_plan(instance: dg.DagsterInstance, table: TableSettings, todo: Plan) -> None:
    """Record the observation of a plan, if its runs record none. Warn of lost versions."""
    if (lost := todo.lost_text(table.name)) is not None:
        _log.warning("%s", lost)
    if (observation := _to_record(last_observation(instance, table), todo)) is not None:
        instance.report_runless_asset_event(observation)


def _to_record(last: dg.AssetObservation | None, todo: Plan) -> dg.AssetObservation | None:
    """Return the observation to record before the runs of a plan start; None: there is none.

    A run records one observation for all its versions, with their numbers. It may fail before: tags that identify the
    table are added to the last page if they have changed. The page of a damaged table keeps the numbers of its last
    good version, and its faults are recorded with them.
    """
    if last is None:
        return None if todo.ranges else todo.observation
    if not todo.ranges and not todo.is_damaged:
        return None if _is_at(last, todo.observation, todo.observation.tags) else todo.observation
    identity = _identity_of(todo.observation)
    if identity == _identity_of(last):
        return None
    tags = {name: tag for name, tag in last.tags.items() if name not in _IDENTITY} | identity
    return dg.AssetObservation(last.asset_key, description=last.description, metadata=last.metadata, tags=tags)


def _is_at(last: dg.AssetObservation, seen: dg.AssetObservation, tags: Mapping[str, str]) -> bool:
    """Return whether an observation is already one of the table and the latest version that were seen."""
    known = {name: tag for name, tag in last.tags.items() if name != CONDITION_TAG}
    latest = seen.metadata.get("latest_version")
    return known == tags and last.metadata.get("latest_version", latest) == latest


def _identity_of(observation: dg.AssetObservation | None) -> dict[str, str]:
    """Return the tags of an observation that identify the table, and which of its materializations count."""
    return {} if observation is None else {name: tag for name, tag in observation.tags.items() if name in _IDENTITY}
