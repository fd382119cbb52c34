from __future__ import annotations

import pytest

from deltasnap_assets.checks.check_settings import CheckSettings
from deltasnap_assets.checks.log import readable_checkpoint
from deltasnap_assets.checks.registry import READABLE_CHECKPOINT
from deltasnap_core import ProblemKind
from tests.assets.checks.known import NO_TABLE, UNSUPPORTED, KnownTableFacts, condition, fault, versions

CHECK = READABLE_CHECKPOINT


def test_table_without_checkpoint_passes() -> None:
    assert readable_checkpoint(condition()).description == "There is no checkpoint."


def test_checkpoint_passes_if_every_page_was_read_now_or_earlier() -> None:
    read = condition(checkpoints_read=("3.checkpoint.parquet", "1.checkpoint.parquet"), pages_read=True)
    assert readable_checkpoint(read).description == "Every page of 3.checkpoint.parquet is readable."
    footer = condition(checkpoints_read=("3.checkpoint.parquet",))
    earlier = readable_checkpoint(footer, checkpoint_known_sound=True)
    assert (earlier.passed, earlier.description.endswith("was readable, and has not changed since then.")) == (
        True,
        True,
    )
    assert not readable_checkpoint(footer).is_evaluated


def test_run_reuses_the_checkpoint_read_by_an_earlier_run() -> None:
    facts = KnownTableFacts(
        condition=condition(checkpoints_read=("3.checkpoint.parquet",)), checkpoint_known_sound=True
    )
    assert CHECK.judge(facts, CheckSettings()).passed


def test_damaged_checkpoint_with_a_fallback_is_a_warning() -> None:
    verdict = readable_checkpoint(condition(fault(ProblemKind.CORRUPT_CHECKPOINT), fault(ProblemKind.BROKEN_HINT)))
    assert (verdict.passed, verdict.severity, verdict.numbers) == (False, "warning", {"damaged_checkpoints": 2})
    lost = fault(ProblemKind.CORRUPT_CHECKPOINT, versions=versions(0, 5))
    assert CHECK.severity_of(readable_checkpoint(condition(lost))) == "error"


@pytest.mark.parametrize(
    "kind", [ProblemKind.CORRUPT_CHECKPOINT, ProblemKind.WRONG_CHECKPOINT, ProblemKind.BROKEN_HINT]
)
def test_each_fault_of_a_checkpoint_or_its_hint_fails(kind: ProblemKind) -> None:
    verdict = readable_checkpoint(condition(fault(kind)))
    assert (verdict.passed, verdict.description) == (False, f"Problem {kind.value}.")
    other = condition(fault(ProblemKind.EMPTY_COMMIT), checkpoints_read=("a", "b"), pages_read=True)
    assert readable_checkpoint(other).description == "Every page of a is readable."
    known = readable_checkpoint(other, checkpoint_known_sound=True)
    assert (known.description, known.numbers) == ("Every page of a is readable.", {"damaged_checkpoints": 0})


def test_unreadable_table_is_not_evaluated() -> None:
    assert readable_checkpoint(UNSUPPORTED).description == "not evaluated: Problem unsupported_protocol."
    assert readable_checkpoint(NO_TABLE).description == "not evaluated: Problem no_table."
