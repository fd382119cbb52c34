"""The facts to record about a table, and those that its checks found."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from deltasnap_assets.checks.check import AnyCheck, Verdict
from deltasnap_assets.checks.registry import CONDITION_CHECKS, EXPIRED_TOMBSTONES, FRESH_TABLE
from deltasnap_assets.quantities import HOUR_MS
from deltasnap_core import Problem
from deltasnap_core.support import DataChange, LastPoll

LOG = "log"
"""The name of problems that are faults of the log itself."""
RUN = "run"
"""The name of the problem that the last run failed."""
ALL_CHECKS = "checks"
"""The name of the problem that the facts for the checks could not be read."""
VERSIONS = "versions"
"""The name of the problem that the key `versions` selects no version of the log."""
STORE = "store"
"""The name of the problem that the store is damaged."""
STORED_VERSIONS = "stored_versions"
"""The name of the problem that versions of the store lack a file."""
UNSHARED_STORE = "unshared_store"
"""The name of the problem that runs store their versions elsewhere."""

_CONDITION_NAMES = frozenset(check.name for check in CONDITION_CHECKS)


@dataclass(frozen=True, slots=True, kw_only=True)
class PollFindings:
    """The facts to record about a table. None: not examined, so the earlier value is kept.

    latest_version, last_commit_ms: of the log.
    problems: by name of the check or other source; empty: no problems.
    vacuum_bytes, time_travel_bytes: of the newest stored version, `facts_version`.
    counted_files: facts from a pass over the files of a version.
    column_totals: what the statistics of the files of a version add up to.
    checked_version, checked_inputs: the newest stored version and `inputs_of_checks`, if checks were evaluated.
    data_change: the last version that changes data.
    is_replaced: whether the log was replaced, and a run is requested: the earlier checks do not count.
    is_examined:     whether the whole log was read for faults.
    examined_checkpoint: the newest checkpoint (`LogListing.newest_checkpoint`) whose pages were read.
    """

    latest_version: int | None = None
    last_commit_ms: int | None = None
    problems: Mapping[str, tuple[Problem, ...]] = field(default_factory=dict)
    stale_after_ms: int | None = None
    facts_version: int | None = None
    vacuum_bytes: int | None = None
    time_travel_bytes: int | None = None
    counted_files: Mapping[str, Any] | None = None
    column_totals: Mapping[str, Any] | None = None
    checked_version: int | None = None
    checked_inputs: str | None = None
    data_change: DataChange | None = None
    is_replaced: bool = False
    is_examined: bool = False
    examined_checkpoint: str | None = None


FACTS = tuple(each.name for each in fields(PollFindings) if each.name not in ("problems", "is_replaced", "is_examined"))
"""The fields that replace those of the last poll with the same names."""


def found_by_checks(verdicts: Mapping[AnyCheck, Verdict]) -> PollFindings:
    """Return the problems found by evaluated checks.

    Checks of the log's condition are omitted, unless they failed to run, because its faults are recorded.
    `fresh_table` is recorded as the rule for when the table becomes stale, because that happens without runs.
    """
    problems, patience, vacuum = dict[str, tuple[Problem, ...]](), None, None
    for check, verdict in verdicts.items():
        name = check.name
        if name == FRESH_TABLE.name and (found := stale_after_ms(verdict.numbers.get("hours_expected"))) is not None:
            patience, problems[name] = found, ()
        elif name not in _CONDITION_NAMES or verdict.has_failed_to_run:
            problems[name] = () if verdict.passed else (check.problem_of(verdict),)
        if name == EXPIRED_TOMBSTONES.name:
            vacuum = verdict.numbers.get("expired_bytes")
    return PollFindings(
        problems=problems, stale_after_ms=patience, vacuum_bytes=None if vacuum is None else int(vacuum)
    )


def known_faults(poll: LastPoll | None) -> tuple[Problem, ...]:
    """Return the recorded faults of a table's log that only reading its commits detects."""
    return () if poll is None else tuple(problem for problem in poll.problems if problem.kind.is_in_commits)


def stale_after_ms(hours: float | None) -> int | None:
    """Return the age of the last commit after which a table is stale; None: it never is. hours: the same age."""
    return None if hours is None else int(hours * HOUR_MS)
