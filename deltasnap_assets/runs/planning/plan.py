"""Decides which versions of a table to materialize, and how to request that from Dagster.

Shared by the sensor, the schedule and `deltasnap refresh`, so that they agree.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

import dagster as dg

from deltasnap_assets.runs.planning.forks import Fork, forks_of_text, forks_text, materialized_since, with_fork
from deltasnap_assets.runs.planning.partitions import contiguous, key_of, version_of, version_partitions
from deltasnap_assets.settings.config import TABLE_TAG, Settings, Since, TableSettings
from deltasnap_assets.texts import visible
from deltasnap_core import (
    ActionNotFoundError,
    CommonVersion,
    CorruptLogError,
    LogListing,
    LogRelation,
    LogStatus,
    SnapshotStore,
    TableLog,
    VersionGapError,
    redacted,
)

ASSET_NAMES = ("log_segment", "reconstructed_state", "computed_state", "all_files", "tombstones")
RANGE_START_TAG = "dagster/asset_partition_range_start"
RANGE_END_TAG = "dagster/asset_partition_range_end"
VERSIONS_TAG = "deltasnap/versions"  # visible to users: Dagster's list of runs hides the two tags above

DAMAGED = (VersionGapError, CorruptLogError, ActionNotFoundError)
"""The errors of `status` when some versions of the log may still be loadable."""

_PLAIN_ID = re.compile(r"[\w.-]{1,63}", re.ASCII)  # the values that Dagster accepts for a tag
_DATA_VERSION = "dagster/data_version"
_GENERATION = "deltasnap/generation"
_FORKS = "deltasnap/forks"
ATTEMPT_TAG = "deltasnap/attempt"
CONDITION_TAG = "deltasnap/condition"  # on an observation: the fault of the table
CHECKPOINT_TAG = "deltasnap/checkpoint"  # on an observation: the checkpoint that could be read completely
BEGAN_AFTER_TAG = "deltasnap/generation_began_after_event"
_IDENTITY = (_GENERATION, _FORKS, BEGAN_AFTER_TAG)


def log_of(table: TableSettings) -> TableLog:
    """Return the log of a configured table."""
    return TableLog.for_path(table.path, table.storage_options)


def job_name(table_name: str) -> str:
    """Return the name of the job that materializes the five assets of a table."""
    return f"{table_name}_snapshots"


def delta_log_key(table_name: str) -> dg.AssetKey:
    """Return the key of the external asset for the table itself."""
    return dg.AssetKey([table_name, "delta_log"])


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """The facts about a table in a Dagster instance.

    versions: with a partition, in the order of insertion. done: versions whose five assets are all materialized.
    generation: the id of the table last observed; None: never observed. began_after: the id of the last event before
    this generation (None: it is the first one); earlier materializations belong to an earlier table.
    forks: where the log of this generation forked. last_materialization: the id of the latest such event.
    """

    versions: tuple[int, ...] = ()
    done: frozenset[int] = frozenset()
    generation: str | None = None
    began_after: int | None = None
    forks: tuple[Fork, ...] = ()
    last_materialization: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Stored:
    """The stored versions of a table, compared with its log. versions: the versions in force."""

    common: CommonVersion
    versions: frozenset[int]

    @property
    def sound_until(self) -> int:
        """The last stored version of this log; -1: none. Its commits and all earlier commits were readable."""
        if self.common.is_continued:
            return max(self.versions, default=-1)
        return -1 if self.common.version is None else self.common.version


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The work for Dagster: partitions to drop and to add (ascending), ranges (first, last) to materialize.

    num_left: the number of versions left for a later plan.
    """

    drop: tuple[int, ...] = ()
    add: tuple[int, ...] = ()
    ranges: tuple[tuple[int, int], ...] = ()
    num_left: int = 0
    observation: dg.AssetObservation

    @property
    def last(self) -> int | None:
        """The last version to materialize; None: nothing to do."""
        return max((last for _, last in self.ranges), default=None)


def known_of(instance: dg.DagsterInstance, table_name: str) -> Known:
    """Return the facts about a table in an instance. Ignores partition keys that are not versions."""
    partitions = version_partitions(table_name).name or ""
    versions = _versions(instance.get_dynamic_partitions(partitions))
    identity = _known_identity(instance, table_name)
    assets = [dg.AssetKey([table_name, name]) for name in ASSET_NAMES]
    latest = [record for asset in assets for record in instance.fetch_materializations(asset, limit=1).records]
    return Known(
        versions=versions,
        done=_materialized(instance, assets, identity),
        generation=identity.get(_GENERATION),
        began_after=_began_after(identity),
        forks=forks_of_text(identity.get(_FORKS)),
        last_materialization=max((record.storage_id for record in latest), default=None),
    )


def materialized_versions(instance: dg.DagsterInstance, asset_key: dg.AssetKey) -> frozenset[int]:
    """Return the versions of the current table and log for which one of its assets is materialized."""
    return _materialized(instance, [asset_key], _known_identity(instance, asset_key.path[0]))


def _materialized(
    instance: dg.DagsterInstance, assets: Sequence[dg.AssetKey], identity: Mapping[str, str]
) -> frozenset[int]:
    """Return the versions for which all assets are materialized since the table was created and its log forked."""

    def after(event: int | None) -> frozenset[int]:
        found = [instance.get_materialized_partitions(asset, after_cursor=event) for asset in assets]
        return frozenset(_versions(set.intersection(*found)))

    return materialized_since(forks_of_text(identity.get(_FORKS)), _began_after(identity), after)


def _began_after(identity: Mapping[str, str]) -> int | None:
    return int(identity.get(BEGAN_AFTER_TAG, 0)) or None


def look(settings: Settings, table: TableSettings, *, examine: bool = False) -> tuple[LogStatus, Stored]:
    """Return the contents of a table's log, and how the stored versions relate to it. Lists the log and the store once.

    If the stored log is the current one, the table is the same, and its id is not read from the log.
    examine: whether to read the commits that are not stored yet, and leave out versions that cannot be loaded. This
    also happens if the latest version cannot be loaded.
    """
    log = log_of(table)
    listing = log.list()
    stored = what_is_stored(settings, table, listing)
    is_same = stored.common.relation is LogRelation.SAME
    generation = stored.common.table_id if is_same else None
    if not examine:
        with suppress(*DAMAGED):
            return log.status(listing, generation), stored
    return log.status(listing, generation, examine_after=stored.sound_until), stored


def what_is_stored(settings: Settings, table: TableSettings, listing: LogListing) -> Stored:
    """Return the stored versions of a table, compared with a listing of its log.

    If the log was rolled back, there is no new version to write: its fork is recorded here.
    """
    store = SnapshotStore.open(None, settings.storage, settings.storage_options)
    common = store.common_version(table.name, log_of(table), listing)
    if common.relation is LogRelation.ROLLED_BACK:
        store.begin_fork(table.name, common)
        return Stored(common=common, versions=frozenset(v for v in common.in_force if v <= (common.version or 0)))
    return Stored(common=common, versions=frozenset(common.in_force))


def plan(table: TableSettings, status: LogStatus, known: Known, stored: Stored | None = None) -> Plan:
    """Return the work to do after a look at the log: at most `max_versions_per_run` versions, the oldest first.

    Versions that are done are left out. If the table was dropped and created again, all its partitions are dropped
    first, and no version counts as done. If its log forked, the same holds for the versions after the last common one.
    It also holds for versions that the store lost, for example to a fork which a run found. Pruned versions stay done.
    """
    is_recreated = known.generation is not None and _is_recreated(status, known, stored)
    fork = None if is_recreated else _fork(status, known, stored)
    kept = () if is_recreated else tuple(v for v in known.versions if fork is None or v <= fork)
    done = frozenset[int]() if is_recreated else known.done - _no_longer_stored(known, stored)
    missing = [v for v in _wanted(table, status, kept) if v not in done or (fork is not None and v > fork)]
    chosen = missing[: table.max_versions_per_run]
    add = tuple(sorted(set(chosen).difference(kept)))
    began_after, forks = known.began_after, known.forks
    if is_recreated:
        began_after, forks = known.last_materialization, ()
    elif fork is not None:
        forks = with_fork(forks, fork, known.last_materialization or 0)
    return Plan(
        drop=tuple(sorted(set(known.versions).difference(kept))),
        add=add,
        ranges=tuple(contiguous(chosen, (*kept, *add))),
        num_left=len(missing) - len(chosen),
        observation=_observation(table, status, began_after, forks),
    )


def _is_recreated(status: LogStatus, known: Known, stored: Stored | None) -> bool:
    """Return whether the table was dropped and created again. The store decides if it can: a table id may change."""
    if stored is not None and stored.common.in_force:
        return stored.common.relation is LogRelation.RECREATED
    return status.is_fork or known.generation != _tag_value(status.generation)


def _fork(status: LogStatus, known: Known, stored: Stored | None) -> int | None:
    """Return the last known version that still counts if the log forked after it; None: it has not."""
    if stored is None:
        return None
    common = stored.common
    if not common.is_continued:
        return common.version
    return status.latest if max(known.versions, default=-1) > status.latest else None


def _no_longer_stored(known: Known, stored: Stored | None) -> frozenset[int]:
    """Return the versions that are materialized but not stored, except pruned ones.

    Pruned versions are older than the first stored one, and their partitions are removed. Pruning leaves at least one
    version: an empty store was lost, moved or replaced.
    """
    if stored is None:
        return frozenset()
    if not stored.versions:
        return known.done.intersection(known.versions)
    earliest = min(stored.versions)
    return frozenset(version for version in known.done if version > earliest and version not in stored.versions)


def observation_tags(instance: dg.DagsterInstance, table: TableSettings, version: int, table_id: str) -> dict[str, str]:
    """Return the tags of an observation at a stored version. table_id: used if no generation is known yet."""
    known = known_of(instance, table.name)
    return _tags(known.generation or _tag_value(table_id), version, known.began_after, known.forks)


def observed_by_hand(instance: dg.DagsterInstance, table: TableSettings, status: LogStatus) -> dg.AssetObservation:
    """Return the observation after a poll that requests no run: without new commits, the last one again.

    A table that was dropped and created again keeps its known id here: the next plan detects the change.
    """
    last, known = last_observation(instance, table.name), known_of(instance, table.name)
    seen = _observation(table, status, known.began_after, known.forks)
    tags = {**seen.tags, _GENERATION: known.generation or seen.tags[_GENERATION]}
    is_known = last is not None and _version_tags(last) == tags
    observed = last if last is not None and is_known else seen
    kept = {} if last is None else {k: v for k, v in last.tags.items() if k in (CONDITION_TAG, CHECKPOINT_TAG)}
    return dg.AssetObservation(
        observed.asset_key, description=observed.description, metadata=observed.metadata, tags={**tags, **kept}
    )


def last_observation(instance: dg.DagsterInstance, table_name: str) -> dg.AssetObservation | None:
    """Return the last observation of the table; None: none yet."""
    records = instance.fetch_observations(delta_log_key(table_name), limit=1).records
    return records[0].asset_observation if records else None


def checkpoint_read(instance: dg.DagsterInstance, table_name: str) -> str | None:
    """Return the checkpoint that was completely readable when the table was last observed; None: none."""
    last = last_observation(instance, table_name)
    return None if last is None else last.tags.get(CHECKPOINT_TAG)


def was_broken(instance: dg.DagsterInstance, table_name: str) -> bool:
    """Return whether a table had a fault when it was last observed."""
    last = last_observation(instance, table_name)
    return last is not None and CONDITION_TAG in last.tags


def prepare(instance: dg.DagsterInstance, table_name: str, todo: Plan) -> None:
    """Add and drop the partitions of a plan, and record its observation. For a sensor, Dagster does that itself."""
    partitions = version_partitions(table_name).name or ""
    for version in todo.drop:
        instance.delete_dynamic_partition(partitions, key_of(version))
    instance.add_dynamic_partitions(partitions, [key_of(version) for version in todo.add])
    unseen_of_plan = unseen(instance, table_name, todo)
    _keep_identity(instance, table_name, todo.observation.tags)
    for observation in unseen_of_plan:
        instance.report_runless_asset_event(observation)


def unseen(instance: dg.DagsterInstance, table_name: str, todo: Plan) -> list[dg.AssetObservation]:
    """Return the observation of a plan, unless a run will record one, or it equals the last one.

    A run records one observation for all its versions, with their numbers.
    """
    last = last_observation(instance, table_name)
    if todo.ranges or (last is not None and _version_tags(last) == todo.observation.tags):
        return []
    return [todo.observation]


def _version_tags(observation: dg.AssetObservation) -> dict[str, str]:
    return {name: tag for name, tag in observation.tags.items() if name not in (CONDITION_TAG, CHECKPOINT_TAG)}


def _known_identity(instance: dg.DagsterInstance, table_name: str) -> Mapping[str, str]:
    """Return the tags of _IDENTITY from the last plan, or, for an earlier release, from the last observation."""
    key = f"{_GENERATION}/{table_name}"
    if (text := instance.daemon_cursor_storage.get_cursor_values({key}).get(key)) is not None:
        kept: dict[str, str] = json.loads(text)
        return kept
    last = last_observation(instance, table_name)
    return {} if last is None else {name: tag for name, tag in last.tags.items() if name in _IDENTITY}


def _keep_identity(instance: dg.DagsterInstance, table_name: str, tags: Mapping[str, str]) -> None:
    """Store the identity of the table whose versions these are: a run may fail before it observes anything."""
    identity = {name: tag for name, tag in tags.items() if name in _IDENTITY}
    if identity != _known_identity(instance, table_name):
        key = f"{_GENERATION}/{table_name}"
        instance.daemon_cursor_storage.set_cursor_values({key: json.dumps(identity)})


def run_tags(table_name: str, first: int, last: int, attempt: int = 1) -> dict[str, str]:
    """Return the tags of a run that materializes the versions first to last. attempt: the number of the attempt."""
    versions = key_of(first) if first == last else f"{first} to {last}"
    tags = {RANGE_START_TAG: key_of(first), RANGE_END_TAG: key_of(last), TABLE_TAG: table_name, VERSIONS_TAG: versions}
    return tags if attempt == 1 else {**tags, ATTEMPT_TAG: str(attempt)}


def nothing_to_do(table: TableSettings, status: LogStatus) -> str:
    """Return why no version of a table is left to materialize."""
    if isinstance(table.versions, Since) and table.versions.since > status.latest:
        first = table.versions.since
        return f"The latest version of {table.name} is {status.latest}, but `versions` starts at version {first}."
    return f"All versions of {table.name} are materialized."


def _wanted(table: TableSettings, status: LogStatus, earlier: tuple[int, ...]) -> list[int]:
    """Return the versions that the configuration selects, ascending.

    Among them are all versions after the first one followed, except those before `since`.
    """
    if isinstance(table.versions, Since):
        first = table.versions.since
    elif table.versions == "latest":
        first = min(earlier, default=status.latest)
    else:
        first = 0
    return sorted(version for version in status.versions if version >= first)


def _observation(
    table: TableSettings, status: LogStatus, began_after: int | None, forks: tuple[Fork, ...]
) -> dg.AssetObservation:
    is_damaged = status.condition is not None and bool(status.condition.unloadable)
    latest = max(status.versions, default=status.latest) if is_damaged else status.latest
    tags = _tags(_tag_value(status.generation), latest, began_after, forks)
    return dg.AssetObservation(
        asset_key=delta_log_key(table.name),
        description=f"Latest version: {latest}" + (f"; forked after {forks[-1].version}" if forks else ""),
        metadata={
            "latest_version": latest,
            "table_id": visible(status.generation),
            "dagster/uri": redacted(table.path),
        },
        tags=tags,
    )


def _tags(generation: str, version: int, began_after: int | None, forks: tuple[Fork, ...]) -> dict[str, str]:
    tags = {_DATA_VERSION: str(version), _GENERATION: generation}
    if began_after is not None:
        tags[_DATA_VERSION] += f" of {generation}"  # version numbers start again, data versions must differ
        tags[BEGAN_AFTER_TAG] = str(began_after)
    if forks:
        tags[_DATA_VERSION] += f" after {len(forks)} forks, the last at {forks[-1].version}"
        tags[_FORKS] = forks_text(forks)
    return tags


def _tag_value(table_id: str) -> str:
    """Return a table's id, which may be any text, as a tag value. Different ids give different values."""
    if _PLAIN_ID.fullmatch(table_id):
        return table_id
    return f"sha256-{hashlib.sha256(repr(table_id).encode()).hexdigest()[:48]}"


def _versions(keys: Iterable[str]) -> tuple[int, ...]:
    versions = []
    for key in keys:
        try:
            versions.append(version_of(key))
        except ValueError:
            continue
    return tuple(versions)
