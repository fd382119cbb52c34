from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from deltasnap_assets.checks.check import Verdict
from deltasnap_assets.checks.check_settings import CheckSettings
from deltasnap_assets.checks.registry import CHECKSUM_AGREES
from deltasnap_core.support import ChecksumDifference
from tests.assets.checks.known import KnownTableFacts

CHECK = CHECKSUM_AGREES
WRONG = ChecksumDifference(field="num_files", in_checksum=3, in_log=4)


def verdict_of(differences: Mapping[int, Sequence[ChecksumDifference]]) -> Verdict:
    return CHECK.judge(KnownTableFacts(checksum_differences=differences), CheckSettings())


def test_checksums_that_contradict_the_log_raise_an_error_that_names_them() -> None:
    assert verdict_of({1: (), 2: ()}).description == "The log agrees with 2 checksums."
    verdict = verdict_of({1: (), 2: (WRONG,)})
    assert (verdict.passed, CHECK.severity_of(verdict)) == (False, "error")
    assert verdict.description == "The log differs from 1 checksum: version 2: num_files."
    assert verdict.numbers == {"checksums_compared": 2, "checksums_wrong": 1}


def test_versions_without_a_checksum_are_not_compared_and_end_an_earlier_failure() -> None:
    verdict = verdict_of({})
    assert (verdict.is_evaluated, verdict.passed) == (False, True)
    assert verdict.description == "not evaluated: neither a version of the run nor the newest one has a checksum."


def test_wrong_checksum_stops_assets_downstream() -> None:
    assert CHECK.is_blocking


def test_wrong_checksum_of_another_version_than_those_of_the_run_does_not_block() -> None:
    facts = KnownTableFacts(versions=[1], checksum_differences={1: (), 2: (WRONG,)})
    verdict = CHECK.judge(facts, CheckSettings())
    assert (verdict.passed, verdict.is_of_run, CHECK.severity_of(verdict)) == (False, False, "warning")
    both = CHECK.judge(KnownTableFacts(versions=[1], checksum_differences={1: (WRONG,), 2: (WRONG,)}), CheckSettings())
    assert both.is_of_run


@pytest.mark.parametrize("number", [10, 11])
def test_ten_versions_are_named(number: int) -> None:
    texts = [f"version {version}: num_files" for version in range(number)]
    found = verdict_of(dict.fromkeys(reversed(range(number)), (WRONG,)))
    assert found.description == f"The log differs from {number} checksums: {'; '.join(texts[:10])}."
    unread = CHECK.judge(KnownTableFacts(unreadable_checksums=range(number)), CheckSettings())
    shown = ", ".join(map(str, range(10)))
    assert unread.description == f"{number} checksums cannot be read: versions {shown}. The log is read instead."
    assert unread.numbers == {"checksums_compared": 0, "checksums_wrong": 0}


def test_wrong_checksum_counts_more_than_one_that_cannot_be_read() -> None:
    two = ChecksumDifference(field="table_size_bytes", in_checksum=3, in_log=4)
    facts = KnownTableFacts(unreadable_checksums=[6], checksum_differences={5: (WRONG, two)})
    verdict = CHECK.judge(facts, CheckSettings())
    assert verdict.description == "The log differs from 1 checksum: version 5: num_files, table_size_bytes."


def test_checksum_that_cannot_be_read_is_a_warning() -> None:
    verdict = CHECK.judge(KnownTableFacts(unreadable_checksums=[6], checksum_differences={5: ()}), CheckSettings())
    assert (verdict.passed, CHECK.severity_of(verdict)) == (False, "warning")
    assert verdict.description == "1 checksum cannot be read: version 6. The log is read instead."
