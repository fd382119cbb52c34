"""The faults of a table as text: on its page, in its last poll, and as a tag that identifies them."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import dagster as dg

from deltasnap_assets.checks.check import MAX_TEXT_LENGTH
from deltasnap_assets.runs.condition.poll_findings import LOG, RUN
from deltasnap_assets.texts import visible
from deltasnap_core import Problem, ProblemKind, TableCondition, Where
from deltasnap_core.support import LOG_FOLDER

FAILED_RUN = "failed_run"
CANNOT_BE_LOADED = "cannot_be_loaded"
FAULT_ENTRIES = ("health", FAILED_RUN, CANNOT_BE_LOADED, "can_be_loaded", "numbers_of", "checks_not_evaluated")
"""The keys of a page that describe faults. The other keys describe the last good version."""

_ACTIVE = re.compile(r"([\\`*\[\]<>|#~])")
_LINK = re.compile(r"(?i)\b(https?|ftp)://")


@dataclass(frozen=True, slots=True, kw_only=True)
class FailedRun:
    """The failed last run of a table, and the reason.

    first_missing: the first of its versions that is not materialized; None: there is none, or it is unknown.
    """

    run_id: str
    reason: str
    first_missing: int | None = None

    @property
    def sentence(self) -> str:
        """The fact with its reason. Errors of libraries have no full stop, and advice follows it."""
        return f"The last run failed: {self.reason}{'' if self.reason.endswith(('.', '!', '?')) else '.'}"


def plain_text(text: str) -> str:
    """Return a text as Markdown that shows it unchanged, and that is also readable without rendering."""
    shown = _ACTIVE.sub(r"\\\1", visible(text, MAX_TEXT_LENGTH))
    return _LINK.sub(r"\1\\://", shown)


def fault_lines(condition: TableCondition | None, failed: FailedRun | None = None) -> list[str]:
    """Return the faults of a table as paragraphs of Markdown, the worst first; empty: no fault."""
    lines = [] if condition is None else [_fault_line(condition.table, fault) for fault in condition.faults]
    if failed is not None and not is_explained(condition, failed.reason):
        lines.append(plain_text(failed.sentence))
    return lines


def problems_of(condition: TableCondition | None, failed: FailedRun | None) -> dict[str, tuple[Problem, ...]]:
    """Return the faults of a table for its last poll, by what found them. condition: None: not known."""
    problems: dict[str, tuple[Problem, ...]] = {RUN: ()}
    if condition is not None:
        problems[LOG] = condition.faults
    if failed is not None and not is_explained(condition, failed.reason):
        reason = visible(failed.reason, MAX_TEXT_LENGTH)
        problems[RUN] = (Problem.of(ProblemKind.FAILED_RUN, Where(name=failed.run_id), reason=reason),)
    return problems


def is_explained(condition: TableCondition | None, reason: str) -> bool:
    """Return whether a fault explains the failure of a run: it has the same sentence, or the same reason."""
    faults = () if condition is None else condition.faults
    return any(fault.text in reason or (bool(fault.reason) and fault.reason in reason) for fault in faults)


def _fault_line(table: str, fault: Problem) -> str:
    """Return a fault with its advice."""
    return f"{in_cell(table, fault.text)} {plain_text(fault.advice)}"


def in_cell(table: str, text: str) -> str:
    """Return text with the names of files of the log instead of their URLs: a long URL does not fit into a cell."""
    return plain_text(text.replace(f"{table}/{LOG_FOLDER}/", ""))


def fault_entries(
    condition: TableCondition | None, failed: FailedRun | None, last_good: int | None
) -> dict[str, dg.MetadataValue]:
    """Return the fault entries of a page, except its first line."""
    entries: dict[str, dg.MetadataValue] = {}
    if failed is not None:
        entries[FAILED_RUN] = dg.MetadataValue.dagster_run(failed.run_id)
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


def condition_tag(lines: Iterable[str], failed: FailedRun | None) -> str | None:
    """Return a tag value that identifies the current faults; None: no fault."""
    text = "\n".join([*lines, "" if failed is None else failed.run_id]).strip()
    return hashlib.sha256(text.encode(errors="replace")).hexdigest()[:40] if text else None
