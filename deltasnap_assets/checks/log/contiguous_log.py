"""The check `contiguous_log`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from deltasnap_assets.checks.check import Verdict, not_evaluated
from deltasnap_assets.checks.log.condition_check import ConditionCheck, failed, unsupported
from deltasnap_core import ProblemKind

if TYPE_CHECKING:
    from deltasnap_core import TableCondition

_WARNINGS = (
    *(kind for kind in ProblemKind if kind.is_in_commits),
    ProblemKind.LOST_VERSIONS,
    ProblemKind.UNPUBLISHED_COMMIT,
)


class ContiguousLog(ConditionCheck):
    """Every version from the earliest loadable one to the latest can be loaded, and no version was lost."""

    name = "contiguous_log"
    expects = (
        "Every version of the log can be loaded: no commit is missing, damaged, empty, "
        "ambiguous or unpublished, and none has impossible times, sizes or numbers of rows."
    )
    advice = (
        "Restore the missing or damaged commits from a backup of the log, or write a checkpoint of a later version "
        "with a writer that still has the table loaded."
    )

    def of_condition(self, condition: TableCondition) -> Verdict:
        if reason := unsupported(condition):
            return not_evaluated(reason)
        if condition.latest is None:
            return failed(condition.faults)
        lost, loadable, latest = condition.unloadable, condition.loadable, condition.latest
        faults = [fault for fault in condition.faults if fault.versions and not fault.kind.is_of_protocol]
        if not faults:
            first = loadable.runs[0][0] if loadable.runs else latest
            found, numbers = f"All versions from {first} to {latest} can be loaded.", {"missing_versions": 0}
            if warnings := condition.faults_of(*_WARNINGS):
                return failed(warnings, f"{found} ", numbers)
            return Verdict(passed=True, description=found, numbers=numbers)
        first = min(loadable.runs[0][0] if loadable.runs else lost.runs[0][0], lost.runs[0][0])
        found = f"Of versions {first} to {latest}, {len(lost):,} cannot be loaded: {lost.text()}. "
        return failed(faults, found, {"missing_versions": len(lost)})
