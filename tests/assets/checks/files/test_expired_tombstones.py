from __future__ import annotations

from dataclasses import replace

import pytest

from deltasnap_assets.checks.check_settings import CheckSettings
from deltasnap_assets.checks.registry import EXPIRED_TOMBSTONES
from tests.assets.checks.known import expired, page_facts

CHECK, LIMITS = EXPIRED_TOMBSTONES, CheckSettings()


def test_only_many_large_expired_tombstones_fail() -> None:
    assert not CHECK.judge(page_facts(tombstones=expired(100, 10**9)), LIMITS).passed
    assert CHECK.judge(page_facts(tombstones=expired(3, 10**9)), LIMITS).passed
    assert CHECK.judge(page_facts(tombstones=expired(100, 10)), LIMITS).passed


@pytest.mark.parametrize(("files", "size", "passed"), [(16, 51, False), (15, 51, True), (16, 50, True)])
def test_expired_tombstones_fail_above_both_limits(files: int, size: int, passed: bool) -> None:
    verdict = CHECK.judge(page_facts(tombstones=expired(files, size), size_in_bytes=100), LIMITS)
    assert (verdict.passed, verdict.numbers) == (passed, {"expired_files": files, "expired_bytes": size})
    note = "" if files >= 16 else " The limit does not apply to fewer than 16 files."
    assert verdict.description == (
        f"At version 12, the retention of {files} files ({size} B) had ended since the last commit: {size}% of the "
        f"size of the table, at most 50% expected.{note}"
    )


def test_expired_tombstones_of_an_empty_table_are_compared_with_one_byte() -> None:
    verdict = CHECK.judge(page_facts(tombstones=expired(1, 1), size_in_bytes=0), LIMITS)
    assert verdict.description.startswith(
        "At version 12, the retention of 1 file (1 B) had ended since the last commit: 100%"
    )


@pytest.mark.parametrize(("without_size", "is_evaluated"), [(15, True), (16, False)])
def test_expired_tombstones_without_a_size_do_not_pass(without_size: int, is_evaluated: bool) -> None:
    gone = replace(expired(100, 10), num_without_size=50, num_expired_without_size=without_size)
    assert CHECK.judge(page_facts(tombstones=gone), LIMITS).is_evaluated == is_evaluated
    many = replace(expired(100, 10**9), num_expired_without_size=without_size)
    assert not CHECK.judge(page_facts(tombstones=many), LIMITS).passed
