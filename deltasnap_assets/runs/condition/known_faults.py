"""Remembers the faults of a log, so that ticks do not read the whole log again while it is unchanged."""

from __future__ import annotations

import time

from deltasnap_assets.runs.due import LogReads
from deltasnap_assets.runs.memory import CONDITIONS, ReadCondition, key_of_table
from deltasnap_assets.settings.config import Settings
from deltasnap_assets.settings.table_settings import TableSettings
from deltasnap_core import (
    Problem,
    TableCondition,
    TableLog,
    VersionRanges,
)
from deltasnap_core.support import CommitFindings, LogListing, redacted

_MAX_AGE_SECONDS = 24 * 3600.0


def condition_unless_known(
    settings: Settings, table: TableSettings, log: TableLog, listing: LogListing, reads: LogReads
) -> TableCondition:
    """Return the condition of a log. Reuses the last one if it had faults, the listing is unchanged, and errors remain.

    The files with errors are read again, because a restored file may have the size and the time of the damaged one. The
    newest checkpoint and the hint are read again too, because a listing does not show their content.
    """
    key, inputs = (key_of_table(settings, table), reads.read_pages), (listing, reads)
    last = CONDITIONS.pop(key, None)
    if last is None or last.inputs != inputs or not _still_holds(log, listing, last):
        known = CommitFindings(sound=reads.sound)
        condition = log.condition(listing, first=reads.first, read_pages=reads.read_pages, known=known)
        last = ReadCondition(inputs, condition, time.monotonic())
    if last.condition.faults and last.condition.is_reachable:
        CONDITIONS[key] = last
    return last.condition


def _still_holds(log: TableLog, listing: LogListing, last: ReadCondition) -> bool:
    """Return whether the condition is recent, and its errors and those of hints remain. Reads no other commit."""
    if time.monotonic() - last.at >= _MAX_AGE_SECONDS:
        return False
    files = {fault.where.file for fault in last.condition.faults}
    sound = VersionRanges.of(version for version, file in listing.commits.items() if redacted(file.path) not in files)
    read_pages = last.condition.pages_read and any(
        fault.kind.is_of_checkpoint_or_hint for fault in last.condition.faults
    )
    now = log.condition(listing, first=0, read_pages=read_pages, known=CommitFindings(sound=sound))
    return _errors(now) == _errors(last.condition)


def _errors(condition: TableCondition) -> list[Problem]:
    return [fault for fault in condition.faults if fault.mark == "error" or fault.kind.is_of_checkpoint_or_hint]
