"""Decides which versions of a table to materialize. Plain values: it reads neither the log nor the instance.

Shared by the sensor, the schedule and `deltasnap refresh`, so that they agree.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Container, Iterable, Mapping, Set
from dataclasses import dataclass, field

import dagster as dg

from deltasnap_assets.runs.planning.forks import Fork, forks_text, with_fork
from deltasnap_assets.runs.planning.names import DATA_VERSION, LAST_UPDATED, table_key
from deltasnap_assets.runs.planning.partitions import contiguous
from deltasnap_assets.runs.stores import uri_of
from deltasnap_assets.settings.table_settings import Since, TableSettings
from deltasnap_assets.texts import visible
from deltasnap_core import LogStatus, VersionRanges
from deltasnap_core.support import CommonVersion, LogRelation

TABLE_ID_TAG = "deltasnap/generation"  # observations of earlier releases have this tag
FORKS_TAG = "deltasnap/forks"
BEGAN_AFTER_TAG = "deltasnap/generation_began_after_event"

_PLAIN_ID = re.compile(r"[\w.-]{1,63}", re.ASCII)  # the values that Dagster accepts for a tag
_DATA_VERSION = "dagster/data_version"


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """The facts about a table in a Dagster instance.

    versions: with a partition, in the order of insertion. done: versions whose five assets are all materialized.
    table_id: of the table last observed, as a tag; None: never observed. began_after: the id of the last event before
    this table (None: it is the first one); earlier materializations belong to an earlier table.
    forks: where the log of this table forked. last_materialization: the id of the latest such event.
    newest: the newest materialized version, if it is of this table, and its generation in the store.
    failed: the versions that Dagster shows as failed, done or not: the last run of them failed. Empty: not queried.
    """

    versions: tuple[int, ...] = ()
    done: frozenset[int] = frozenset()
    table_id: str | None = None
    began_after: int | None = None
    forks: tuple[Fork, ...] = ()
    last_materialization: int | None = None
    newest: tuple[int, str] | None = None
    failed: frozenset[int] = frozenset()

    def missing(self, versions: Container[int]) -> list[int]:
        """Return those of the versions that have a partition but are not done, ascending."""
        return sorted(version for version in self.versions if version in versions and version not in self.done)


@dataclass(frozen=True, slots=True, kw_only=True)
class Stored:
    """The stored versions of a table, compared with its log.

    versions: the current versions in the store. `what_is_readable` leaves out the versions that lack a file and that
    the log still has, so that a plan stores them again.
    unreadable: the versions that lack a file and that only the store has, each with the problem. Only
    `what_is_readable` looks for them.
    """

    common: CommonVersion
    versions: frozenset[int]
    unreadable: Mapping[int, str] = field(default_factory=dict)

    @property
    def sound(self) -> VersionRanges:
        """The stored versions of this log: their commits were read. A checkpoint may replace the commits between."""
        if self.common.is_continued:
            return VersionRanges.of(self.versions)
        last = -1 if self.common.version is None else self.common.version
        return VersionRanges.of(version for version in self.versions if version <= last)

    @property
    def first_unread(self) -> int:
        """The first version after the first run of stored versions; 0: nothing is stored. Earlier commits were read."""
        return self.sound.runs[0][1] + 1 if self.sound else 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The work for Dagster: partitions to drop and to add (ascending), ranges (first, last) to materialize.

    is_late: whether a version to add belongs before one that has a partition.
    num_left: the number of versions left for a later plan. is_damaged: whether some versions cannot be loaded.
    lost: the versions that neither the store nor the log has: dropped ones, and those between two polls.
    """

    drop: tuple[int, ...] = ()
    add: tuple[int, ...] = ()
    is_late: bool = False
    ranges: tuple[tuple[int, int], ...] = ()
    num_left: int = 0
    observation: dg.AssetObservation
    is_damaged: bool = False
    lost: tuple[int, ...] = ()

    def lost_text(self, table_name: str) -> str | None:
        """Return the warning that versions are lost; None: there are none."""
        return lost_text(table_name, self.lost) if self.lost else None

    @property
    def last(self) -> int | None:
        """The last version to materialize; None: nothing to do."""
        return max((last for _, last in self.ranges), default=None)


def lost_text(table_name: str, versions: Iterable[int]) -> str:
    """Return the warning that versions of a table are lost."""
    return (
        f"{table_name}: versions are lost: {VersionRanges.of(versions).text()}. Neither the store nor the log has "
        "them, so they have no partitions. If the log was cleaned up before they were stored, keep it for longer "
        "(`delta.logRetentionDuration`). If the store was deleted or replaced by mistake, restore it from a backup."
    )


def cleaned_up(versions: Iterable[int], first_in_log: int, kept: Set[int]) -> set[int]:
    """Return the versions that the log no longer has, except kept ones: those that are stored or done."""
    return {version for version in versions if version < first_in_log and version not in kept}


def plan(table: TableSettings, status: LogStatus, known: Known, stored: Stored | None = None) -> Plan:
    """Return the work to do after a poll of the log: at most `max_versions_per_run` versions, the oldest first.

    Versions that are done are left out, pruned ones too. These do not count as done any more:
    - all versions, if the table was dropped and created again
    - the versions after the last common one, if the log forked. A partition of a version that returns stays: Dagster
      refuses to delete and add it in one result.
    - versions that the store lost, for example to a fork which a run found

    Versions that were never done lose their partitions while they cannot be loaded, or are not selected by the
    configuration. A version that is done and stored gets its partition back if that was lost. One that is stored but
    not done is materialized from the store if the log no longer has it: its materialization was wiped, or recorded in
    another instance. One that is done and stored, but shown as failed, is materialized from the store again.
    known: read before `status`, so that a version which another process adds in the meantime is not taken for lost.
    """
    is_recreated = _is_recreated(status, known, stored)
    fork = None if is_recreated else _fork(status, known, stored)
    done = frozenset[int]() if is_recreated else known.done - _no_longer_stored(known, stored)
    unloadable = _unloadable(status)
    first_in_log = 0 if stored is None else min(status.versions, default=0)  # the commits before it were cleaned up
    only_stored = frozenset(
        v for v in (() if stored is None else stored.sound) if v < first_in_log and v not in unloadable
    )
    gone = cleaned_up(known.versions, first_in_log, only_stored | done)
    unloaded = {v for v in known.versions if v in unloadable and v not in done}
    unselected = {v for v in known.versions if v < _since(table) and v not in known.done}
    dropped = set(known.versions) if is_recreated else gone | unloaded | unselected
    kept = tuple(v for v in known.versions if (fork is None or v <= fork) and v not in dropped)
    wanted_from = _first_wanted(table, status, kept)
    between_polls = range(max((*kept, *gone), default=first_in_log) + 1, first_in_log)
    in_store = frozenset[int]() if stored is None else stored.versions
    unseen = {v for v in cleaned_up(between_polls, first_in_log, done | in_store) if v >= wanted_from}
    recorded_again = frozenset[int]() if stored is None else known.failed & in_store - stored.unreadable.keys()
    recorded = {v for v in done - recorded_again if fork is None or v <= fork}
    # The log's and the store's are in separate runs: a damaged store does not delay the versions of the log.
    of_log, of_store = (
        [v for v in sorted(versions) if v >= wanted_from and v not in recorded]
        for versions in (status.versions, only_stored)
    )
    now_of_log = of_log[: table.max_versions_per_run]
    now_of_store = of_store[: table.max_versions_per_run - len(now_of_log)]
    wanted = done.intersection(in_store).union(now_of_log, now_of_store, kept)
    stays = tuple(v for v in known.versions if v in wanted)
    add = tuple(sorted(wanted.difference(stays)))
    return Plan(
        drop=tuple(sorted(set(known.versions).difference(stays))),
        add=add,
        is_late=bool(add and stays) and add[0] < max(stays),
        ranges=(*contiguous(now_of_log, (*stays, *add)), *contiguous(now_of_store, (*stays, *add))),
        num_left=len(of_log) + len(of_store) - len(now_of_log) - len(now_of_store),
        observation=_observation(table, status, known, fork, is_recreated=is_recreated),
        is_damaged=bool(unloadable),
        lost=() if is_recreated else tuple(sorted(gone | unseen | (unloaded & known.done))),
    )


def _is_recreated(status: LogStatus, known: Known, stored: Stored | None) -> bool:
    """Return whether the table was dropped and created again. The store decides if it can: a table id may change.

    Without the store, the status is that of new commits only: they continue the log.
    """
    if stored is None:
        return False
    if known.table_id is None:  # not observed yet: a run may have been killed before it did
        return bool(known.done) and stored.common.relation is LogRelation.RECREATED
    if stored.common.names:
        return stored.common.relation is LogRelation.RECREATED or _last_shared(known, stored.common) is None
    return status.is_fork or known.table_id != tag_value(status.table_id)


def _fork(status: LogStatus, known: Known, stored: Stored | None) -> int | None:
    """Return the last known version that still counts, if the log forked after it; None: it did not fork."""
    if stored is None:
        return None
    common = stored.common
    if not common.is_continued:
        return common.version
    shared = _last_shared(known, common)
    if known.newest is not None and shared is not None and shared < known.newest[0]:
        return shared
    return status.latest if max(known.versions, default=-1) > status.latest else None


def _last_shared(known: Known, common: CommonVersion) -> int | None:
    """Return the last stored version that may be the materialized one; None: there is none.

    The log may be the stored one although neither is the materialized one: another instance may have stored a log that
    was replaced, or both were restored from a backup.
    """
    return common.latest_in_log if known.newest is None else common.last_shared(known.newest[1])


def _unloadable(status: LogStatus) -> VersionRanges:
    return VersionRanges() if status.condition is None else status.condition.unloadable


def _no_longer_stored(known: Known, stored: Stored | None) -> frozenset[int]:
    """Return the versions that are materialized but not stored, except pruned ones.

    The store records for each log which versions were pruned, so that those of an earlier table count for no later one.
    An empty store was lost with this record, because pruning leaves at least one version: then partitions show it.
    """
    if stored is None:
        return frozenset()
    first = stored.common.pruned_before if stored.versions else min(known.versions, default=0)
    return frozenset(version for version in known.done if version >= first and version not in stored.versions)


def nothing_to_do(table: TableSettings, status: LogStatus) -> str:
    """Return why no version of a table is left to materialize."""
    return table.why_none_wanted(status.latest) or f"All versions of {table.name} are materialized."


def _first_wanted(table: TableSettings, status: LogStatus, earlier: tuple[int, ...]) -> int:
    """Return the first version that the configuration selects: all later ones are selected, too."""
    return min(earlier, default=status.latest) if table.versions == "latest" else _since(table)


def _since(table: TableSettings) -> int:
    return table.versions.since if isinstance(table.versions, Since) else 0


def _observation(
    table: TableSettings, status: LogStatus, known: Known, fork: int | None, *, is_recreated: bool
) -> dg.AssetObservation:
    """Return the observation of a plan: a table that was created again, or whose log forked, begins after an event."""
    if is_recreated:
        return observation_of(table, status, known.last_materialization, ())
    forks = known.forks if fork is None else with_fork(known.forks, fork, known.last_materialization or 0)
    return observation_of(table, status, known.began_after, forks, known.table_id)


def observation_of(
    table: TableSettings,
    status: LogStatus,
    began_after: int | None,
    forks: tuple[Fork, ...],
    table_id: str | None = None,
) -> dg.AssetObservation:
    """Return the observation of a poll. table_id: the known one, if the log continues; None: that of the status.

    A status of new commits only repeats the id of its cursor, and `CREATE OR REPLACE TABLE` may have changed the id.
    """
    latest = max(status.versions, default=status.latest) if _unloadable(status) else status.latest
    if table_id is None or status.listing is not None:
        table_id = tag_value(status.table_id)
    tags, commit = version_tags(table_id, latest, began_after, forks), status.commits.get(latest)
    time = {} if commit is None else {LAST_UPDATED: dg.MetadataValue.timestamp(commit.modification_time / 1000)}
    return dg.AssetObservation(
        asset_key=table_key(table),
        description=f"Latest version: {latest}" + (f"; forked after {forks[-1].version}" if forks else ""),
        metadata={
            "latest_version": latest,
            "table_id": visible(status.table_id),
            "dagster/uri": uri_of(table),
            **time,
        },
        tags=tags,
    )


def at_data_version(table: TableSettings, observation: dg.AssetObservation, data_change: int) -> dg.AssetObservation:
    """Return an observation of `observation_of` with its data version.

    data_change: the last version that changes data.
    """
    latest = observation.metadata["latest_version"].value
    assert isinstance(latest, int)
    text = f"{table.data_version(latest, data_change)}{observation.tags[_DATA_VERSION].removeprefix(str(latest))}"
    return dg.AssetObservation(
        asset_key=observation.asset_key,
        description=observation.description,
        metadata={**observation.metadata, DATA_VERSION: data_change},
        tags={**observation.tags, _DATA_VERSION: text},
    )


def version_tags(table_id: str, version: int, began_after: int | None, forks: tuple[Fork, ...]) -> dict[str, str]:
    tags = {_DATA_VERSION: str(version), TABLE_ID_TAG: table_id}
    if began_after is not None:
        tags[_DATA_VERSION] += f" of {table_id}"  # version numbers start again, data versions must differ
        tags[BEGAN_AFTER_TAG] = str(began_after)
    if forks:
        last = forks[-1]  # a log may fork at one version several times, so only the event distinguishes the forks
        tags[_DATA_VERSION] += f" after {len(forks)} forks, the last at {last.version} after event {last.after_event}"
        tags[FORKS_TAG] = forks_text(forks)
    return tags


def tag_value(table_id: str) -> str:
    """Return a table's id, which may be any text, as a tag value. Different ids give different values."""
    if _PLAIN_ID.fullmatch(table_id):
        return table_id
    return f"sha256-{hashlib.sha256(repr(table_id).encode()).hexdigest()[:48]}"
