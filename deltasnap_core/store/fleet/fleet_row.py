"""FleetRow: one table of a fleet, from its stored data. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from deltasnap_core.protocol.state.file_size_histogram import files_below
from deltasnap_core.redaction import safe_repr
from deltasnap_core.store.fleet.last_poll import DEFAULT_SMALL_FILE_BYTES, LastPoll
from deltasnap_core.store.fleet.table_level import CLOCK_SKEW_MS, TableStatus, table_status
from deltasnap_core.store.fleet.timeline import Timeline
from deltasnap_core.store.format.manifest import VersionManifest

LEAST_PAUSE_MS = 60 * 1000
"""Shorter pauses are those of a burst or of a copied table. They do not show when the next commit is due."""

_DAY_MS = 24 * 60 * 60 * 1000
_MOST = 1 << 63

FLEET_SCHEMA = pa.schema(
    [
        pa.field("table", pa.string(), nullable=False),
        pa.field("condition", pa.string(), nullable=False),
        pa.field("reason", pa.string(), nullable=False),
        pa.field("check", pa.string()),
        pa.field("advice", pa.string(), nullable=False),
        pa.field("polled_at_ms", pa.int64()),
        pa.field("last_commit_ms", pa.int64()),
        pa.field("age_ms", pa.int64()),
        pa.field("usual_pause_ms", pa.int64()),
        pa.field("age_ratio", pa.float64()),
        pa.field("latest_version", pa.int64()),
        pa.field("stored_version", pa.int64()),
        pa.field("versions_behind", pa.int64()),
        pa.field("num_versions", pa.int64(), nullable=False),
        pa.field("num_records", pa.int64()),
        pa.field("num_files", pa.int64()),
        pa.field("size_in_bytes", pa.int64()),
        pa.field("growth_7d_bytes", pa.int64()),
        pa.field("growth_30d_bytes", pa.int64()),
        pa.field("small_file_ratio", pa.float64()),
        pa.field("vacuum_bytes", pa.int64()),
        pa.field("time_travel_bytes", pa.int64()),
        pa.field("commits_since_checkpoint", pa.int64()),
        pa.field("features", pa.list_(pa.string()), nullable=False),
        pa.field("owners", pa.list_(pa.string()), nullable=False),
        pa.field("path", pa.string()),
    ]
)
"""The columns of `SnapshotStore.fleet`, in the order of `FleetRow`."""

HISTORY_SCHEMA = pa.schema([pa.field("taken_at_ms", pa.int64(), nullable=False), *FLEET_SCHEMA])
"""The columns of `SnapshotStore.fleet_history`."""


@safe_repr
@dataclass(frozen=True, slots=True, kw_only=True)
class FleetRow:
    """One table of a fleet. None: unknown. Times are in ms since the epoch, spans in ms, sizes in bytes.

    status:          the condition. Its columns are `condition`, `reason`, `check` and `advice`.
    last_commit_ms:  of the newest commit that is known. age_ms: since then; None also if that time is in the future.
    usual_pause_ms:  the median pause between recent commits. age_ratio: age_ms as a multiple of it, or of
                     LEAST_PAUSE_MS if that is longer.
    latest_version:  of the log, at the last poll. stored_version: the newest one. versions_behind: their difference.
    num_versions:    the number of stored versions.
    num_records:     the rows of the newest stored version, without deleted ones. The following five are of this version
                     too.
    growth_7d_bytes, growth_30d_bytes: None also if the version of that time is not stored.
    small_file_ratio: small files among all files; 0 for a table without files.
    vacuum_bytes:    the bytes that VACUUM would free at least, at the time of the last poll.
    time_travel_bytes: of other files that only earlier versions read, at that time.
    features:        the table features, sorted.
    """

    table: str
    status: TableStatus
    polled_at_ms: int | None = None
    last_commit_ms: int | None = None
    age_ms: int | None = None
    usual_pause_ms: int | None = None
    age_ratio: float | None = None
    latest_version: int | None = None
    stored_version: int | None = None
    versions_behind: int | None = None
    num_versions: int = 0
    num_records: int | None = None
    num_files: int | None = None
    size_in_bytes: int | None = None
    growth_7d_bytes: int | None = None
    growth_30d_bytes: int | None = None
    small_file_ratio: float | None = None
    vacuum_bytes: int | None = None
    time_travel_bytes: int | None = None
    commits_since_checkpoint: int | None = None
    features: tuple[str, ...] = ()
    owners: tuple[str, ...] = ()
    path: str | None = None

    @property
    def condition(self) -> str:
        """A `TableLevel`."""
        return self.status.level.value

    @property
    def reason(self) -> str:
        """See `TableStatus.reason`."""
        return self.status.reason

    @property
    def check(self) -> str | None:
        """`TableStatus.checks`, separated by ", "; None: there are none."""
        return ", ".join(self.status.checks) or None

    @property
    def advice(self) -> str:
        """See `TableStatus.advice`."""
        return self.status.advice


def fleet_row(
    table: str,
    poll: LastPoll | None,
    newest: VersionManifest | None,
    timeline: Timeline,
    now_ms: int,
) -> FleetRow:
    """Return the row of a table.

    newest:   the manifest of the newest stored version; None: there is none, or it cannot be read.
    timeline: of the stored versions.
    """
    latest = None if poll is None else poll.latest_version
    stored = None if newest is None else newest.version
    behind = None if latest is None or stored is None else max(latest - stored, 0)
    last_commit = _last_commit(poll, newest, is_behind=bool(behind))
    is_future = last_commit is not None and last_commit - now_ms > CLOCK_SKEW_MS
    age = None if last_commit is None or is_future else max(now_ms - last_commit, 0)
    pause, growth_7d, growth_30d = read_growth(timeline, now_ms)
    return FleetRow(
        table=table,
        status=table_status(poll, last_commit, now_ms),
        polled_at_ms=None if poll is None else poll.polled_at_ms,
        last_commit_ms=last_commit,
        age_ms=age,
        usual_pause_ms=pause,
        age_ratio=None if age is None or pause is None else age / max(pause, LEAST_PAUSE_MS),
        latest_version=latest,
        stored_version=stored,
        versions_behind=behind,
        num_versions=timeline.num_versions,
        growth_7d_bytes=growth_7d,
        growth_30d_bytes=growth_30d,
        vacuum_bytes=None if poll is None or poll.facts_version != stored else poll.vacuum_bytes,
        time_travel_bytes=None if poll is None or poll.facts_version != stored else poll.time_travel_bytes,
        owners=() if poll is None else poll.owners,
        path=None if poll is None else poll.path,
        **({} if newest is None else _of_version(newest, poll)),
    )


def read_growth(timeline: Timeline, now_ms: int) -> tuple[int | None, int | None, int | None]:
    """Return the usual pause of a table, and its growth in seven and in thirty days."""
    growth_7d, growth_30d = (timeline.growth_since(now_ms - days * _DAY_MS) for days in (7, 30))
    return timeline.usual_pause_ms(), growth_7d, growth_30d


def worst_first(row: FleetRow) -> tuple[int, str]:
    """Return the key by which rows are sorted: the condition, then the name."""
    return row.status.level.rank, row.table


def fleet_table(rows: Iterable[FleetRow]) -> pa.Table:
    """Return rows as an Arrow table of FLEET_SCHEMA. A number that does not fit 64 bits becomes null."""
    values = [{name: _bounded(getattr(row, name)) for name in FLEET_SCHEMA.names} for row in rows]
    return pa.Table.from_pylist(values, schema=FLEET_SCHEMA)


def _last_commit(poll: LastPoll | None, newest: VersionManifest | None, *, is_behind: bool) -> int | None:
    """Return the time of the last commit: the stored one, unless the log has later ones; None: unknown."""
    if newest is not None and not is_behind:
        return newest.timestamp
    return None if poll is None else poll.last_commit_ms


def _of_version(manifest: VersionManifest, poll: LastPoll | None) -> dict[str, Any]:
    """Return the values from the manifest of the newest version. Errors: KeyError, TypeError, ValueError if damaged."""
    state, checkpoint = manifest.computed_state, manifest.log_segment["checkpoint"]
    limit = DEFAULT_SMALL_FILE_BYTES if poll is None else poll.small_file_bytes
    files = state["numOfFiles"]
    histogram = state["fileSizeHistogram"]  # verified by the digest of the manifest
    small = files_below(histogram["sortedBinBoundaries"], histogram["fileCounts"], limit)
    has_records = state["numFilesWithoutRecords"] == 0
    return {
        "num_records": state["numKnownRecords"] - state["numDeletedRecords"] if has_records else None,
        "num_files": files,
        "size_in_bytes": state["sizeInBytes"],
        "small_file_ratio": small / max(files, 1),
        "commits_since_checkpoint": manifest.version - (-1 if checkpoint is None else checkpoint["version"]),
        "features": _features(state["protocol"]),
    }


def _features(protocol: Mapping[str, Any] | None) -> tuple[str, ...]:
    lists = [] if protocol is None else [protocol.get("readerFeatures"), protocol.get("writerFeatures")]
    return tuple(sorted({name for names in lists for name in names or ()}))


def _bounded(value: Any) -> Any:
    return None if isinstance(value, int) and not -_MOST <= value < _MOST else value
