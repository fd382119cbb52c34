"""Remembers the faults of a log, so that ticks do not read the whole log again while it is unchanged."""

from __future__ import annotations

import time
from dataclasses import dataclass

from deltasnap_assets.runs.due import LogReads
from deltasnap_assets.settings.config import Settings, TableSettings
from deltasnap_core import FaultKind, LogListing, TableCondition, TableLog, VersionRanges, redacted

_MAX_AGE_SECONDS = 24 * 3600.0
_OF_STORAGE = (FaultKind.NO_TABLE, FaultKind.ACCESS_DENIED, FaultKind.STORAGE_FAILED)
_OF_CHECKPOINT_OR_HINT = (FaultKind.CORRUPT_CHECKPOINT, FaultKind.WRONG_CHECKPOINT, FaultKind.BROKEN_HINT)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Known:
    inputs: tuple[LogListing, LogReads]
    condition: TableCondition
    at: float


_known: dict[tuple[str, str, bool], _Known] = {}


def condition_unless_known(
    settings: Settings, table: TableSettings, log: TableLog, listing: LogListing, reads: LogReads
) -> TableCondition:
    """Return the condition of a log. Reuses the last one if it had faults, the listing is unchanged, and errors remain.

    The files with errors are read again, because a restored file may have the size and the time of the damaged one. The
    newest checkpoint and the hint are read again too, because a listing does not show their content.
    """
    key, inputs = (settings.storage, table.name, reads.read_pages), (listing, reads)
    known = _known.pop(key, None)
    if known is None or known.inputs != inputs or not _still_holds(log, listing, known):
        condition = log.condition(listing, first=reads.first, sound=reads.sound, read_pages=reads.read_pages)
        known = _Known(inputs=inputs, condition=condition, at=time.monotonic())
    if known.condition.faults and not known.condition.faults_of(*_OF_STORAGE):
        _known[key] = known
    return known.condition


def _still_holds(log: TableLog, listing: LogListing, known: _Known) -> bool:
    """Return whether the condition is recent, and its errors and those of hints remain. Reads no other commit."""
    if time.monotonic() - known.at >= _MAX_AGE_SECONDS:
        return False
    files = {fault.file for fault in known.condition.faults}
    sound = VersionRanges.of(version for version, file in listing.commits.items() if redacted(file.path) not in files)
    read_pages = known.condition.pages_read and bool(known.condition.faults_of(*_OF_CHECKPOINT_OR_HINT))
    now = log.condition(listing, first=0, sound=sound, read_pages=read_pages)
    return _errors(now) == _errors(known.condition)


def _errors(condition: TableCondition) -> set[str]:
    return {fault.text for fault in condition.faults if fault.mark == "error" or fault.kind in _OF_CHECKPOINT_OR_HINT}
