"""Check: a check of a table as one value, with its texts and its judge. Pure: no Dagster, no PySpark.

Its Dagster check, its keys in `deltasnap.yaml`, its row in `docs/` and its line on the page are derived from it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeAlias, TypeVar

from deltasnap_assets.checks.check_settings import CheckOptions, CheckSettings
from deltasnap_assets.checks.facts import PageFacts, TableFacts
from deltasnap_assets.texts import visible
from deltasnap_core import Problem

if TYPE_CHECKING:
    from deltasnap_core import TableCondition

Severity = Literal["warning", "error"]

MAX_TEXT_LENGTH = 2000
"""Longer texts of results are cut."""

FAILED_TO_RUN = "The check could not be evaluated: "
"""The start of the description of a check that raised an error."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The result of a check: whether it passed, and why.

    advice: what to do if it failed; empty: the advice of the check.
    severity: of a failure; None: the severity of the check.
    is_evaluated: False: the check could not run. The description gives the reason; it neither passed nor failed.
    `passed` then means that an earlier failure is over.
    is_of_run: whether the result is about a version of this run. A failure of another version is a warning, so it does
    not block this run. It does not replace the result of the run that materialized that version.
    has_failed_to_run: whether the check raised an error, which is the description.
    numbers: by name, recorded with the result.
    """

    passed: bool
    description: str
    advice: str = ""
    severity: Severity | None = None
    is_evaluated: bool = True
    is_of_run: bool = True
    has_failed_to_run: bool = False
    numbers: Mapping[str, int | float] = field(default_factory=dict)


def not_evaluated(reason: str) -> Verdict:
    """Return the verdict of a check that could not run."""
    return Verdict(passed=False, is_evaluated=False, description=f"not evaluated: {reason}")


def failed_to_run(error: str) -> Verdict:
    """Return the verdict of a check that raised an error."""
    return Verdict(passed=False, has_failed_to_run=True, description=f"{FAILED_TO_RUN}{error}", severity="error")


def nothing_to_compare(reason: str) -> Verdict:
    """Return the verdict of a check that has nothing to compare and so cannot fail. It ends an earlier failure."""
    return replace(not_evaluated(reason), passed=True)


def within_limit(is_within: bool, number: int, least: int, what: str) -> tuple[bool, str]:
    """Return whether a check passes, and a note if its limit does not apply because there are too few of something."""
    if is_within or number >= least:
        return is_within, ""
    return True, f" The limit does not apply to fewer than {least} {what}."


F = TypeVar("F", contravariant=True)
R = TypeVar("R", covariant=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Check(Generic[F, R]):
    """A check of a table.

    name: its key. asset: the asset that it belongs to. expects: what it expects, in one sentence.
    advice: what to do if it fails.
    judge: returns the verdict from facts and the settings of the table.
    of_condition: returns the verdict if only the condition of the log is known; None: it needs more.
    severity: of a failure, unless the verdict states another.
    is_blocking: whether assets downstream do not run in the same run after an error.
    options: of a table, which replace the severity and `is_blocking`.
    """

    name: str
    asset: str
    expects: str
    advice: str
    judge: Callable[[F, CheckSettings], R]
    of_condition: Callable[[TableCondition], Verdict] | None = None
    severity: Severity = "warning"
    is_blocking: bool = False
    options: CheckOptions = field(default_factory=CheckOptions)

    @property
    def blocks(self) -> bool:
        """Whether assets downstream do not run in the same run after an error."""
        return self.is_blocking if self.options.blocking is None else self.options.blocking

    def severity_of(self, verdict: Verdict) -> Severity:
        """Return the severity of a failed verdict."""
        if not verdict.is_of_run:
            return "warning"
        if self.options.severity is not None:
            return "error" if self.options.severity == "error" else "warning"
        return verdict.severity or self.severity

    def text_of(self, verdict: Verdict) -> str:
        """Return the description of a verdict, with advice if the check failed."""
        shown = visible(verdict.description, MAX_TEXT_LENGTH)
        return shown if verdict.passed else f"{shown}\n\nWhat to do: {self.advice_of(verdict)}"

    def advice_of(self, verdict: Verdict) -> str:
        """Return what to do after a failed verdict."""
        return verdict.advice or self.advice

    def problem_of(self, verdict: Verdict) -> Problem:
        """Return the problem of a failed verdict."""
        text = visible(verdict.description, MAX_TEXT_LENGTH)
        return Problem.of_check(
            check=self.name, severity=self.severity_of(verdict), text=text, advice=self.advice_of(verdict)
        )


TableCheck: TypeAlias = Check[TableFacts, Verdict]
"""A check of the current table: one result for each run."""
PageCheck: TypeAlias = Check[PageFacts, Verdict]
"""A check of the current table whose failure also appears in the health line of the table's page."""
VersionCheck: TypeAlias = Check[TableFacts, dict[int, Verdict]]
"""A check of single versions: one verdict for each version of a run that can be compared with earlier versions."""
AnyCheck: TypeAlias = Check[Any, Any]
