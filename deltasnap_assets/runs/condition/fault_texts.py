"""The faults of a table as text: on its page, in its last poll, and as a tag that identifies them."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Sequence

import dagster as dg

from deltasnap_assets.checks.check import MAX_TEXT_LENGTH
from deltasnap_assets.runs.condition.poll_findings import LOG, RUN
from deltasnap_assets.texts import visible
from deltasnap_core import Problem, ProblemKind, TableCondition, VersionRanges, Where
from deltasnap_core.support import LOG_FOLDER

FAILED_RUN = "failed_run"
CANNOT_BE_LOADED = "cannot_be_loaded"
FAULT_ENTRIES = ("health", FAILED_RUN, CANNOT_BE_LOADED, "can_be_loaded", "numbers_of", "checks_not_evaluated")
"""The keys of a page that describe faults. The other keys describe the last good version."""

_ACTIVE = re.compile(r"([\\`*\[\]<>|#~])")
_LINK = re.compile(r"(?i)\b(https?|ftp)://")


def failed_run_problem(run_id: str, reason: str, missing: Sequence[int] = ()) -> Problem:
    """Return the problem that the last run of a table failed. missing: its versions that are not materialized."""
    where = Where(name=run_id, versions=VersionRanges.of(missing))
    return Problem.of(ProblemKind.FAILED_RUN, where, reason=visible(reason, MAX_TEXT_LENGTH))


def plain_text(text: str) -> str:
    """Return a text as Markdown that shows it unchanged, and that is also readable without rendering."""
    shown = _ACTIVE.sub(r"\\\1", visible(text, MAX_TEXT_LENGTH))
    return _LINK.sub(r"\1\\://", shown)


def fault_lines(condition: TableCondition | None, failed: Problem | None = None) -> list[str]:
    """Return the faults of a table as paragraphs of Markdown, the worst first; empty: no fault."""
    lines = [] if condition is None else [_fault_line(condition.table, fault) for fault in condition.faults]
    return lines + [plain_text(each.text) for each in unexplained(condition, failed)]


def problems_of(condition: TableCondition | None, failed: Problem | None) -> dict[str, tuple[Problem, ...]]:
    """Return the faults of a table for its last poll, by what found them. condition: None: not known."""
    of_log = {} if condition is None else {LOG: condition.faults}
    return {RUN: unexplained(condition, failed), **of_log}


def unexplained(condition: TableCondition | None, failed: Problem | None) -> tuple[Problem, ...]:
    """Return the failure of a run, unless a fault of the log explains it; empty also if no run failed.

    A fault explains it if it keeps a version of the run from loading, or the log from being read.
    """
    if failed is None:
        return ()
    faults = () if condition is None else condition.faults
    missing = failed.where.versions
    is_explained = any(fault.kind.is_of_access or fault.versions.overlaps(missing) for fault in faults)
    return () if is_explained else (failed,)


def _fault_line(table: str, fault: Problem) -> str:
    """Return a fault with its advice."""
    return f"{in_cell(table, fault.text)} {plain_text(fault.advice)}"


def in_cell(table: str, text: str) -> str:
    """Return text with the names of files of the log instead of their URLs: a long URL does not fit into a cell."""
    return plain_text(text.replace(f"{table}/{LOG_FOLDER}/", ""))


def fault_entries(
    condition: TableCondition | None, failed: Problem | None, last_good: int | None
) -> dict[str, dg.MetadataValue]:
    """Return the fault entries of a page, except its first line."""
    entries: dict[str, dg.MetadataValue] = {}
    if failed is not None:
        entries[FAILED_RUN] = dg.MetadataValue.dagster_run(failed.where.name or "")
    if condition is not None and (rows := list(_unloadable_rows(condition))):
        entries[CANNOT_BE_LOADED] = dg.MetadataValue.md("\n".join(["| versions | why |", "|-|-|", *rows]))
    if condition is not None and condition.latest is not None and not condition.is_readable:
        entries["can_be_loaded"] = dg.MetadataValue.text(condition.loadable.text() or "none")
    is_latest = condition is not None and condition.is_readable and condition.latest == last_good
    if last_good is not None and not is_latest:
        is_lost = condition is not None and last_good in condition.unloadable
        what = "stored before the damage" if is_lost else "the last good one"
        entries["numbers_of"] = dg.MetadataValue.text(f"version {last_good}, {what}")
    return entries


def _unloadable_rows(condition: TableCondition) -> Iterator[str]:
    for fault in condition.faults:
        if fault.versions:
            yield f"| {fault.versions.text()} | {plain_text(_why(fault))} |"
        elif condition.latest is None:  # the log could not be listed
            yield f"| all | {plain_text(_why(fault))} |"


def _why(fault: Problem) -> str:
    if fault.missing:
        word = "commit of version" if len(fault.missing) == 1 else "commits of versions"
        return f"the {word} {fault.missing.text()} {'is' if len(fault.missing) == 1 else 'are'} missing"
    if fault.kind.is_of_protocol:
        return fault.text  # its reason is only the name of the feature
    where = "" if fault.where.file is None else f"{str(fault.where).rpartition('/')[2]}: "
    return f"{where}{fault.reason or fault.text}"


def condition_tag(*problems: Problem) -> str | None:
    """Return a tag value that identifies the current problems; None: there are none."""
    keys = sorted(json.dumps(problem.key) for problem in problems)
    return hashlib.sha256("\n".join(keys).encode()).hexdigest()[:40] if keys else None
