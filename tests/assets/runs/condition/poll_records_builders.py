"""Builders for the tests of poll records."""

from __future__ import annotations

from pathlib import Path

from deltasnap_assets.runs.condition.condition_report import report_condition
from deltasnap_assets.runs.condition.poll_findings import PollFindings
from deltasnap_assets.runs.condition.poll_records import record
from deltasnap_assets.runs.stores import log_of
from deltasnap_core import Problem
from deltasnap_core.log.condition.problem_kinds import Severity
from tests.assets.followed_table import FollowedTable


def noted(check: str = "small_files", severity: Severity = "warning") -> Problem:
    """Return a problem that a check found."""
    return Problem.of_check(check=check, severity=severity, text="Many.", advice="Run `OPTIMIZE`.")


WARNING = noted()


class Table(FollowedTable):
    """A table with a log of three versions."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder / "events", owners=("team:web",))
        self.write(0, 2)

    @property
    def condition(self) -> str:
        return str(self.row["condition"])

    def check(self) -> None:
        """Record that all checks passed."""
        record(self.store, self.table, PollFindings(checked_version=0))

    def report(self, failed: Problem | None = None) -> None:
        condition = log_of(self.table).condition()
        report_condition(self.instance, self.settings, self.table, condition, failed)
