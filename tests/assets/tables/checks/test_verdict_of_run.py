"""The checks of several versions have one verdict for a run."""

from __future__ import annotations

from deltasnap_assets.checks.check import Verdict
from deltasnap_assets.tables.checks.version_checks import verdict_of_run

PASSED = {version: Verdict(passed=True, description=f"passed at {version}") for version in (3, 1, 2)}


def test_verdict_of_passed_versions_is_that_of_the_newest() -> None:
    assert verdict_of_run(PASSED) == PASSED[3]


def test_verdict_of_failed_versions_names_all_of_them() -> None:
    failed = {
        version: Verdict(passed=False, description=f"failed at {version}.", advice=str(version)) for version in (2, 1)
    }
    assert verdict_of_run(PASSED | failed) == Verdict(passed=False, description="failed at 1. failed at 2.", advice="2")


def test_run_without_comparable_versions_is_not_evaluated() -> None:
    assert not verdict_of_run({}).is_evaluated
