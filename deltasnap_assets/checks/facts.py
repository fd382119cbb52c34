"""Facts about a table, for checks and pages. Only values and protocols, no PySpark."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Protocol

from pydantic import TypeAdapter, ValidationError

from deltasnap_assets.checks.compaction import Compaction, PartitionFiles

if TYPE_CHECKING:
    from deltasnap_core import LogSegment, SnapshotState, TableCondition
    from deltasnap_core.support import ChecksumDifference, ColumnTrend, DailyRows, LogListing


@dataclass(frozen=True, slots=True, kw_only=True)
class FileFacts:
    """Facts about the live files. largest, smallest: (path, bytes), a few of each.

    partitions:     a few, those with the most bytes, the largest first.
    num_partitions: the number of all partitions. median_bytes: of all partitions; None: no partitions. Both are None
                    if there are too many to count.
    compaction:     an estimate; None: unknown, or nothing to compact.
    """

    largest: tuple[tuple[str, int], ...]
    smallest: tuple[tuple[str, int], ...]
    partitions: tuple[PartitionFiles, ...]
    num_partitions: int | None
    median_bytes: float | None
    compaction: Compaction | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TombstoneFacts:
    """Facts about the tombstones. Sizes are in bytes, times in ms since the epoch (None: no tombstones).

    size_in_bytes: of the tombstones that have a size.
    expired: tombstones whose retention has ended. VACUUM deletes their files, unless it already has.
    expired_bytes: of the expired ones that have a size.
    time_travel_bytes: of files that only earlier versions read, and whose retention has not ended; None: an earlier
                       release counted them.
    """

    num_files: int
    size_in_bytes: int
    num_without_size: int
    first_expires_ms: int | None
    last_expires_ms: int | None
    num_expired: int
    num_expired_without_size: int
    expired_bytes: int
    time_travel_bytes: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CountedFiles:
    """Facts about the files of one stored version, from one pass over them.

    generation: of the version in the store. counted_at_ms: when the pass started (ms since the epoch).
    size_in_bytes: of the live files.
    """

    version: int
    generation: str
    counted_at_ms: int
    size_in_bytes: int
    files: FileFacts
    tombstones: TombstoneFacts

    @classmethod
    def from_json(cls, values: Mapping[str, Any] | None) -> CountedFiles | None:
        """Return the facts from the result of `to_json`; None: there are none, or another release wrote them."""
        try:
            return None if values is None else _adapter().validate_python(values)
        except ValidationError:
            return None

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON values."""
        found: dict[str, Any] = _adapter().dump_python(self, mode="json")
        return found


@cache
def _adapter() -> TypeAdapter[CountedFiles]:
    return TypeAdapter(CountedFiles)


class PageFacts(Protocol):
    """The facts on the table's page, about the newest stored version."""

    @property
    def state(self) -> SnapshotState:
        """Its computed state."""

    @property
    def segment(self) -> LogSegment:
        """The log files to read for the latest version."""

    @property
    def counted(self) -> CountedFiles:
        """Facts about the files of this version, or of an earlier one: they name it."""

    @property
    def compaction(self) -> Compaction | None:
        """The partitions that OPTIMIZE would compact; None: not known."""


class TableFacts(PageFacts, Protocol):
    """The facts of a run about the current table. Each is computed when a check uses it."""

    @property
    def condition(self) -> TableCondition:
        """The versions that can be loaded, and the faults of the log."""

    @property
    def checkpoint_known_sound(self) -> bool:
        """Whether an earlier run read every page of the newest checkpoint, and it has not changed since then."""

    @property
    def loadable_state(self) -> SnapshotState | None:
        """The computed state of the latest version of the log; None: not stored."""

    @property
    def is_catalog_known(self) -> bool:
        """Whether the log has the commits that a catalog ratified, if one manages the table."""

    @property
    def commit_times_ms(self) -> Sequence[int]:
        """The times of the last commits (ms since the epoch), ascending, at least one."""

    @property
    def listing(self) -> LogListing:
        """The files of the log."""

    @property
    def configuration(self) -> Mapping[str, str]:
        """The properties of the latest version of the log."""

    @property
    def engine(self) -> str | None:
        """The engine that committed the newest stored version; None: unknown."""

    @property
    def now_ms(self) -> int:
        """The current time (ms since the epoch)."""

    @property
    def versions(self) -> Sequence[int]:
        """The versions of the run."""

    @property
    def late_checksum(self) -> int | None:
        """The stored version before the newest one of the run, if its `.crc` file was written after it was stored."""

    @property
    def unreadable_checksums(self) -> Sequence[int]:
        """The versions whose `.crc` file exists, but cannot be read."""

    @property
    def checksum_differences(self) -> Mapping[int, Sequence[ChecksumDifference]]:
        """How the `.crc` file of a version differs from its stored state.

        Of each version of the run, the newest one and that of `late_checksum`, if they have such a file.
        """

    @property
    def daily_rows(self) -> DailyRows:
        """The rows that commits added, by day."""

    @property
    def columns(self) -> Sequence[ColumnTrend]:
        """The nulls and the extremes of the columns, at `columns_version`.

        New files are those written in the 24 hours before that version was committed.
        """

    @property
    def columns_version(self) -> int:
        """The newest stored version."""

    @property
    def states(self) -> Mapping[int, SnapshotState]:
        """The stored states of the versions of the run and of some versions before them."""

    @property
    def schema_changes(self) -> Mapping[int, Sequence[str]]:
        """By version of the run, the changes of the schema since the stored version before it, as text."""
