"""TableCondition: the loadable versions of a table and the faults of its log. Values only."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from deltasnap_core.log.condition.problem import Mark, Problem, Where, pairs
from deltasnap_core.log.condition.problem_kinds import ProblemKind
from deltasnap_core.log.listing.checkpoint_provider import NO_CHECKPOINT, CheckpointProvider
from deltasnap_core.protocol.actions import Metadata, Protocol
from deltasnap_core.protocol.readable_schema import Place, UnsupportedTypeChangeError, check_schema
from deltasnap_core.protocol.table_features import is_readable, metadata_to_read
from deltasnap_core.ranges import VersionRanges
from deltasnap_core.redaction import safe_repr


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
    counted:          the newest sound checkpoint and the number of its files; None: none, or its pages were not read.
    """

    table: str
    latest: int | None = None
    loadable: VersionRanges = field(default_factory=VersionRanges)
    faults: tuple[Problem, ...] = ()
    commits_read: VersionRanges = field(default_factory=VersionRanges)
    unread: VersionRanges = field(default_factory=VersionRanges)
    checkpoints_read: tuple[str, ...] = ()
    pages_read: bool = False
    checkpoint: str | None = field(default=None, repr=False, compare=False)
    counted: tuple[CheckpointProvider, int] | None = field(default=None, repr=False, compare=False)

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
    def is_reachable(self) -> bool:
        """Whether no fault is about reaching the log, or a file of it."""
        return not any(fault.kind.is_of_access for fault in self.faults)

    @property
    def newest_loadable(self) -> int | None:
        """The newest version that can be loaded; None: there is none."""
        return self.loadable.runs[-1][1] if self.loadable.runs else None

    @property
    def unloadable(self) -> VersionRanges:
        """The versions that cannot be loaded because of a fault."""
        return joined(fault.versions for fault in self.faults)

    def faults_of(self, *kinds: ProblemKind) -> tuple[Problem, ...]:
        """Return the faults of the given kinds."""
        return tuple(fault for fault in self.faults if fault.kind in kinds)

    def faults_at(self, version: int) -> tuple[Problem, ...]:
        """Return the faults that prevent a version from being loaded."""
        return tuple(fault for fault in self.faults if version in fault.versions)

    def without(self, kind: ProblemKind) -> TableCondition:
        """Return this condition without the faults of a kind."""
        return replace(self, faults=tuple(fault for fault in self.faults if fault.kind is not kind))

    def with_schema_of(
        self, metadata: Metadata | None, protocol: Protocol | None, place: Place | None = None
    ) -> TableCondition:
        """Return this condition with a fault added if rows cannot be read by the schema in force. None: unknown.

        place: of the metadata in the log; None: unknown.
        An unsupported feature may add types, so the schema of a version that needs one is not checked.
        """
        is_known = any(fault.kind.is_of_schema for fault in self.faults)
        if metadata is None or is_known or (protocol and not is_readable(protocol)):
            return self
        where = Where() if place is None else Where.of(place[0], line=place[1])
        try:
            check_schema(metadata_to_read(protocol, metadata))
        except UnsupportedTypeChangeError as error:
            fault = Problem.of(ProblemKind.UNSUPPORTED_TYPE_CHANGE, where, table=self.table, change=str(error))
        except ValueError as error:
            fault = Problem.of(ProblemKind.BROKEN_SCHEMA, where, table=self.table, reason=str(error))
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
        return replace(self, faults=(*(each for each in self.faults if each.key != fault.key), fault))

    def with_stored_files(self, num_files: int) -> TableCondition:
        """Return this condition with a fault added if the counted checkpoint has another number of files than stored.

        num_files: of the stored version of that checkpoint.
        """
        checkpoint, found = self.counted or (NO_CHECKPOINT, num_files)
        if found == num_files:
            return self
        where = Where.of(checkpoint.files[0].path, checkpoint.version)
        wrong = Problem.of(ProblemKind.WRONG_CHECKPOINT, where, found=found, stored=num_files)
        return replace(self, faults=(*self.faults, wrong))

    def with_known_faults(self, faults: Iterable[Problem]) -> TableCondition:
        """Return this condition with faults added that were found in commits which this examination did not read."""
        keys = {fault.key for fault in self.faults}
        return replace(self, faults=(*self.faults, *(fault for fault in faults if fault.key not in keys)))

    def with_lost_versions(self, lost: VersionRanges) -> TableCondition:
        """Return this condition with a fault added for versions that were stored and are gone from the end of the log.

        The log alone does not show them. lost: may be empty.
        """
        if not lost or self.latest is None:
            return self
        where = Where(versions=lost)
        fault = Problem.of(ProblemKind.LOST_VERSIONS, where, table=self.table, latest=self.latest)
        return replace(self, faults=(*self.faults, fault))

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


def wrong_checksum(version: int, path: str, fields: Sequence[str]) -> Problem:
    """Return the fault of a `.crc` file that differs from the log in some fields."""
    return Problem.of(ProblemKind.WRONG_CHECKSUM, Where.of(path, version), fields=", ".join(fields))


def joined(ranges: Any) -> VersionRanges:
    """Return the union of version ranges. The cost depends on the number of runs, not on the number of versions."""
    runs: list[tuple[int, int]] = []
    for first, last in sorted(run for each in ranges for run in each.runs):
        if runs and first <= runs[-1][1] + 1:
            runs[-1] = (runs[-1][0], max(runs[-1][1], last))
        else:
            runs.append((first, last))
    return VersionRanges(tuple(runs))
