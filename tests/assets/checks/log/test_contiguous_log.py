from __future__ import annotations

import pytest

from deltasnap_assets.checks.log import contiguous_log
from deltasnap_assets.checks.registry import CONTIGUOUS_LOG
from deltasnap_core import ProblemKind, VersionRanges
from tests.assets.checks.known import NO_TABLE, UNSUPPORTED, condition, fault, versions

CHECK = CONTIGUOUS_LOG


def test_log_without_gaps_passes() -> None:
    verdict = contiguous_log(condition(loadable=versions(2, 5)))
    assert (verdict.passed, verdict.numbers) == (True, {"missing_versions": 0})
    assert verdict.description == "All versions from 2 to 5 can be loaded."


def test_unloadable_versions_raise_an_error_with_the_advice_of_their_fault() -> None:
    gap = fault(ProblemKind.MISSING_COMMIT, versions=versions(3, 5))
    verdict = contiguous_log(condition(gap, loadable=versions(0, 2)))
    assert (verdict.passed, verdict.severity, verdict.numbers) == (False, "error", {"missing_versions": 3})
    assert verdict.description == "Of versions 0 to 5, 3 cannot be loaded: 3 to 5. Problem missing_commit."
    assert CHECK.text_of(verdict).endswith("\n\nWhat to do: Repair missing_commit.")


def test_unloadable_first_versions_count() -> None:
    gap = fault(ProblemKind.MISSING_COMMIT, versions=versions(0, 1))
    verdict = contiguous_log(condition(gap, loadable=versions(2, 5)))
    assert verdict.description.startswith("Of versions 0 to 5, 2 cannot be loaded: 0 to 1.")


def test_fault_with_a_fallback_does_not_fail_it() -> None:
    assert contiguous_log(condition(fault(ProblemKind.CORRUPT_CHECKPOINT))).passed


@pytest.mark.parametrize(
    "kind",
    [
        ProblemKind.EMPTY_COMMIT,
        ProblemKind.LOST_VERSIONS,
        ProblemKind.REPEATED_ADD,
        ProblemKind.FUTURE_TIMESTAMP,
        ProblemKind.NEGATIVE_NUMBER,
    ],
)
def test_odd_commit_is_a_warning_although_every_version_loads(kind: ProblemKind) -> None:
    verdict = contiguous_log(condition(fault(kind), loadable=versions(0, 5)))
    assert (verdict.passed, verdict.severity, verdict.numbers) == (False, "warning", {"missing_versions": 0})
    assert verdict.description == f"All versions from 0 to 5 can be loaded. Problem {kind.value}."


def test_log_of_which_no_version_can_be_loaded_is_an_error() -> None:
    gap = fault(ProblemKind.MISSING_COMMIT, versions=versions(2, 5))
    verdict = contiguous_log(condition(gap, loadable=VersionRanges()))
    assert verdict.description.startswith("Of versions 2 to 5, 4 cannot be loaded: 2 to 5.")
    assert contiguous_log(condition(loadable=VersionRanges())).description.startswith("All versions from 5 to 5")


def test_missing_table_fails_the_check() -> None:
    verdict = contiguous_log(NO_TABLE)
    assert (verdict.passed, verdict.is_evaluated, verdict.description) == (False, True, "Problem no_table.")


def test_unsupported_table_is_not_evaluated() -> None:
    verdict = contiguous_log(UNSUPPORTED)
    assert (verdict.is_evaluated, verdict.description) == (False, "not evaluated: Problem unsupported_protocol.")


def test_unsupported_version_in_the_past_is_not_a_gap() -> None:
    past = fault(ProblemKind.UNSUPPORTED_PROTOCOL, versions=versions(1, 2))
    assert contiguous_log(condition(past, loadable=versions(3, 5))).passed
