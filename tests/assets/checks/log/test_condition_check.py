"""The verdict of a check for several faults."""

from __future__ import annotations

import pytest

from deltasnap_assets.checks.log import failed, unsupported
from deltasnap_core import ProblemKind
from tests.assets.checks.known import UNSUPPORTED, condition, fault, versions

LOST = fault(ProblemKind.MISSING_COMMIT, versions=versions(3, 3), at=versions(3, 3))
HINT = fault(ProblemKind.BROKEN_HINT)


@pytest.mark.parametrize(
    ("faults", "severity"),
    [((LOST,), "error"), ((LOST, HINT), "error"), ((HINT, LOST), "error"), ((HINT,), "warning"), ((), "warning")],
)
def test_one_error_makes_the_verdict_an_error(faults: tuple[object, ...], severity: str) -> None:
    assert failed(faults).severity == severity  # type: ignore[arg-type]


def test_verdict_has_each_text_and_each_advice_once() -> None:
    verdict = failed([LOST, HINT, LOST], "Broken: ", {"faults": 3})
    assert verdict.description == "Broken: Problem missing_commit. Problem broken_hint. Problem missing_commit."
    assert verdict.advice == "Repair missing_commit. Repair broken_hint."
    assert (verdict.passed, verdict.numbers) == (False, {"faults": 3})


def test_unsupported_feature_counts_only_if_the_latest_version_needs_it() -> None:
    assert unsupported(UNSUPPORTED) == "Problem unsupported_protocol."
    assert unsupported(condition()) == ""
    assert unsupported(condition(LOST)) == ""
