"""ConditionCheck: a check that needs only the condition of a table's log. Pure."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from deltasnap_assets.checks.check import Limits, TableCheck, Verdict

if TYPE_CHECKING:
    from deltasnap_assets.checks.facts import TableFacts
    from deltasnap_core import Problem, TableCondition


class ConditionCheck(TableCheck[Limits]):
    """A check of the log's condition. It is evaluated in runs, and whenever a table is found to be broken."""

    asset = "delta_log"
    severity = "error"

    @abstractmethod
    def of_condition(self, condition: TableCondition) -> Verdict:
        """Return the verdict."""

    def verdict(self, facts: TableFacts, limits: Limits) -> Verdict:  # noqa: ARG002  # it has no limits
        return self.of_condition(facts.condition)


def unsupported(condition: TableCondition) -> str:
    """Return why deltasnap does not support the latest version of a table; empty: it does, or unknown."""
    faults = (fault for fault in condition.faults if fault.kind.is_of_protocol)
    return "" if condition.is_readable else " ".join(fault.text for fault in faults)


def failed(faults: Sequence[Problem], before: str = "", numbers: Mapping[str, int | float] | None = None) -> Verdict:
    """Return the failed verdict for some faults. before: text before theirs."""
    return Verdict(
        passed=False,
        severity="error" if any(fault.mark == "error" for fault in faults) else "warning",
        description=before + " ".join(fault.text for fault in faults),
        advice=" ".join(dict.fromkeys(fault.advice for fault in faults)),
        numbers=numbers or {},
    )
