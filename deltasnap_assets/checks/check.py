"""Check: a check of a table as one object, with its texts, limits and verdict. Pure: no Dagster, no PySpark.

A check is a subclass of `TableCheck`, `PageCheck` or `VersionCheck` in its own file, and an entry in `registry.py`. Its
Dagster check, its keys in `deltasnap.yaml`, its row in `docs/` and its line on the page are derived from it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from copy import copy
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, ClassVar, Generic, Literal, Self, TypeVar, get_args

from pydantic import BaseModel, ConfigDict, ValidationInfo, field_validator

from deltasnap_assets.texts import visible
from deltasnap_core import Problem

if TYPE_CHECKING:
    from deltasnap_assets.checks.facts import PageFacts, TableFacts, VersionFacts

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


class NumericSettings(BaseModel):
    """Settings whose numbers are not booleans: Pydantic takes `true` as 1, and YAML `yes` and `on` as `true`."""

    @field_validator("*", mode="before")
    @classmethod
    def _is_no_boolean(cls, value: object, info: ValidationInfo) -> object:
        kind = cls.model_fields[str(info.field_name)].annotation
        is_number = {int, float}.intersection(get_args(kind) or (kind,))
        return str(value).lower() if isinstance(value, bool) and is_number else value


class Limits(NumericSettings):
    """The limits of a check: keys of `checks` in `deltasnap.yaml`. This class itself has none."""

    # The text below a field is its description in the documentation, the schema for `dg`, and error messages.
    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)


class CheckOptions(Limits):
    """Whether a check is evaluated, and the effect of a failure."""

    enabled: bool = True
    """`false` switches the check off."""
    severity: Literal["error", "warn", "warning"] | None = None
    """The severity of a failure, in Dagster, in the fleet and in alerts: `error` or `warn`; `null`: as the check
    decides.
    """
    blocking: bool | None = None
    """Whether a failure with the severity `error` keeps assets downstream from running in the same run; `null`: only
    `checksum_agrees` does.
    """


L = TypeVar("L", bound=Limits)


class Check:
    """The texts of a check.

    name: its key. asset: the asset that it belongs to. expects: what it expects, in one sentence.
    advice: what to do if it fails.
    severity: of a failure, unless the verdict states another.
    is_blocking: whether assets downstream do not run in the same run after an error.
    options: of a table, which replace the severity and `is_blocking`.
    """

    name: ClassVar[str]
    asset: ClassVar[str]
    expects: ClassVar[str]
    advice: ClassVar[str]
    severity: ClassVar[Severity] = "warning"
    is_blocking: ClassVar[bool] = False
    options: CheckOptions = CheckOptions()

    def with_options(self, options: CheckOptions) -> Self:
        """Return the check with the options of a table."""
        check = copy(self)
        check.options = options
        return check

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


class TableCheck(Check, ABC, Generic[L]):
    """A check of the current table: one result for each run."""

    @abstractmethod
    def verdict(self, facts: TableFacts, limits: L) -> Verdict:
        """Return the verdict of a run."""


class PageCheck(TableCheck[L]):
    """A check of the current table whose failure also appears in the health line of the table's page."""

    @abstractmethod
    def verdict(self, facts: PageFacts, limits: L) -> Verdict:
        """Return the verdict of a run or a page. If the page lacks a fact, the check is not evaluated."""


class VersionCheck(Check, ABC, Generic[L]):
    """A check of single versions: one result for each version of a run, and the worst result for the run."""

    @abstractmethod
    def verdicts(self, facts: VersionFacts, limits: L) -> dict[int, Verdict]:
        """Return the verdict of each version of the run that can be compared with earlier versions."""
