"""TableCondition: the loadable versions of a table and the faults of its log. Values only."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from deltasnap_core.log.condition.fault import Fault, FaultKind, Mark, pairs
from deltasnap_core.log.condition.fault_messages import (
    broken_schema,
    lost_versions,
    unsupported_type_change,
    wrong_checkpoint,
    wrong_checksum,
)
from deltasnap_core.protocol.actions import Metadata, Protocol
from deltasnap_core.protocol.readable_schema import Place, UnsupportedTypeChangeError, check_schema
from deltasnap_core.protocol.table_features import is_readable, metadata_to_read
from deltasnap_core.ranges import VersionRanges
from deltasnap_core.redaction import safe_repr


@safe_repr
@dataclass(frozen=True, slots=True)
class CountedCheckpoint:
    """A checkpoint whose pages were read: its version, the URL of its (first) file, and the number of files in it.

    doubt: the reason of the fault that a hint states another number of files; None: none does.
    """

    version: int
    path: str
    num_files: int
    doubt: str | None


@safe_repr
@dataclass(frozen=True, slots=True, kw_only=True)
class TableCondition:
    """The condition of a table, derived from its log alone.

    table:            URL of the table, without credentials.
    latest:           the latest version that has a commit or a checkpoint; None: there is none, or it is unknown.
    loadable:         the versions that can be loaded.
    faults:           errors first, each group in log order.
    commits_read:     the versions whose commits were read.
    unread:           the versions whose commits were only listed.
    checkpoints_read: names of the top-level files of the checkpoints that were read: the newest one and, if it is
                      damaged, the next older ones. Other checkpoints count as sound.
    pages_read:       whether every page of those checkpoints was read; False: only the footers and non-file actions.
    checkpoint:       `LogListing.newest_checkpoint`, if its pages were read; None: they were not, or there is none.
    counted:          the newest sound checkpoint, if its pages were read; None: they were not, or there is none.
    """

    table: str
    latest: int | None = None
    loadable: VersionRanges = field(default_factory=VersionRanges)
    faults: tuple[Fault, ...] = ()
    commits_read: VersionRanges = field(default_factory=VersionRanges)
    unread: VersionRanges = field(default_factory=VersionRanges)
    checkpoints_read: tuple[str, ...] = ()
    pages_read: bool = False
    checkpoint: str | None = field(default=None, repr=False, compare=False)
    counted: CountedCheckpoint | None = field(default=None, repr=False, compare=False)

    @property
    def mark(self) -> Mark:
        """The worst mark of all faults; `ok` if there are none."""
        marks = {fault.mark for fault in self.faults}
        return "error" if "error" in marks else "warning" if marks else "ok"

    @property
    def is_complete(self) -> bool:
        """Whether every commit and every page of the newest checkpoint was read: no fault can be hidden."""
        return self.pages_read and not self.unread

    @property
    def is_readable(self) -> bool:
        """Whether the latest version can be loaded."""
        return self.latest is not None and self.latest in self.loadable

    @property
    def newest_loadable(self) -> int | None:
        """The newest version that can be loaded; None: there is none."""
        return self.loadable.runs[-1][1] if self.loadable.runs else None

    @property
    def unloadable(self) -> VersionRanges:
        """The versions that cannot be loaded because of a fault."""
        return joined(fault.versions for fault in self.faults)

    def faults_of(self, *kinds: FaultKind) -> tuple[Fault, ...]:
        """Return the faults of the given kinds."""
        return tuple(fault for fault in self.faults if fault.kind in kinds)

    def faults_at(self, version: int) -> tuple[Fault, ...]:
        """Return the faults that prevent a version from being loaded."""
        return tuple(fault for fault in self.faults if version in fault.versions)

    def without(self, kind: FaultKind) -> TableCondition:
        """Return this condition without the faults of a kind."""
        return replace(self, faults=tuple(fault for fault in self.faults if fault.kind is not kind))

    def with_schema_of(
        self, metadata: Metadata | None, protocol: Protocol | None, place: Place | None = None
    ) -> TableCondition:
        """Return this condition with a fault added if rows cannot be read by the schema in force. None: unknown.

        place: of the metadata in the log; None: unknown.
        An unsupported feature may add types, so the schema of a version that needs one is not checked.
        """
        if metadata is None or self.faults_of(FaultKind.BROKEN_SCHEMA) or (protocol and not is_readable(protocol)):
            return self
        try:
            check_schema(metadata_to_read(protocol, metadata))
        except UnsupportedTypeChangeError as error:
            fault = unsupported_type_change(self.table, str(error), place)
        except ValueError as error:
            fault = broken_schema(self.table, str(error), place)
        else:
            return self
        return replace(self, faults=tuple(sorted((*self.faults, fault), key=lambda each: each.mark != "error")))

    def with_wrong_checksum(self, version: int, path: str, fields: Sequence[str]) -> TableCondition:
        """Return this condition with a fault if the checksum of a version differs from the log in some fields.

        It replaces a fault of that checksum that names fewer fields. path: of the checksum.
        """
        fault = wrong_checksum(version, path, fields)
        if not fields or fault in self.faults:
            return self
        others = (each for each in self.faults if (each.kind, each.file) != (fault.kind, fault.file))
        return replace(self, faults=(*others, fault))

    def with_stored_files(self, num_files: int) -> TableCondition:
        """Return this condition with a fault added if the counted checkpoint has another number of files than stored.

        If it has the same number, but a hint states another one, the hint is wrong: the checkpoint then has no fault.
        num_files: of the stored version of that checkpoint.
        """
        counted = self.counted
        if counted is None:
            return self
        doubt = (FaultKind.WRONG_CHECKPOINT, counted.doubt)
        others = tuple(fault for fault in self.faults if (fault.kind, fault.reason) != doubt)
        if counted.num_files == num_files:
            return replace(self, faults=others)
        return replace(
            self, faults=(*others, wrong_checkpoint(counted.version, counted.path, counted.num_files, num_files))
        )

    def with_known_faults(self, faults: Iterable[Fault]) -> TableCondition:
        """Return this condition with faults added that were found in commits which this examination did not read."""
        texts = {fault.text for fault in self.faults}
        return replace(self, faults=(*self.faults, *(fault for fault in faults if fault.text not in texts)))

    def with_lost_versions(self, lost: VersionRanges) -> TableCondition:
        """Return this condition with a fault added for versions that were stored and are gone from the end of the log.

        The log alone does not show them. lost: may be empty.
        """
        if not lost or self.latest is None:
            return self
        return replace(self, faults=(*self.faults, lost_versions(self.table, lost, self.latest)))

    @property
    def text(self) -> str:
        """The texts of all faults; empty if there are none."""
        return " ".join(fault.text for fault in self.faults)

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON values; versions as `[first, last]` pairs."""
        return {
            "mark": self.mark,
            "latest_version": self.latest,
            "loadable_versions": pairs(self.loadable),
            "unloadable_versions": pairs(self.unloadable),
            "unread_versions": pairs(self.unread),
            "faults": [fault.to_json() for fault in self.faults],
        }


def joined(ranges: Any) -> VersionRanges:
    """Return the union of version ranges. The cost depends on the number of runs, not on the number of versions."""
    runs: list[tuple[int, int]] = []
    for first, last in sorted(run for each in ranges for run in each.runs):
        if runs and first <= runs[-1][1] + 1:
            runs[-1] = (runs[-1][0], max(runs[-1][1], last))
        else:
            runs.append((first, last))
    return VersionRanges(tuple(runs))
