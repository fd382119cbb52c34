from __future__ import annotations

import pytest

from deltasnap_assets.runs.partitions import contiguous, key_of, version_of, versions_of


def test_versions_sort_as_numbers() -> None:
    assert versions_of(["10", "9", "0", "2"]) == (0, 2, 9, 10)
    assert key_of(12) == "12"


@pytest.mark.parametrize("key", ["", "x", "-1", "01", "1.0", "٣"])
def test_key_that_is_no_version_is_refused(key: str) -> None:
    with pytest.raises(ValueError, match="is no version of a table"):
        version_of(key)


CASES = {
    "none": ((), (), []),
    "one": ((3,), (), [(3, 3)]),
    "a range": ((3, 4, 5), (), [(3, 5)]),
    "a gap": ((3, 4, 6), (), [(3, 4), (6, 6)]),
    "in order of insertion": ((3, 4, 5), (3, 4, 5), [(3, 5)]),
    "one came late": ((3, 4, 5), (3, 5, 4), [(3, 3), (4, 4), (5, 5)]),
    "some came late": ((1, 2, 3, 4), (3, 4, 1, 2), [(1, 2), (3, 4)]),
    "another key between": ((3, 4), (3, 9, 4), [(3, 3), (4, 4)]),
}


@pytest.mark.parametrize("case", CASES)
def test_ranges_have_no_gap_and_are_ranges_of_keys(case: str) -> None:
    versions, order, expected = CASES[case]
    assert list(contiguous(versions, order)) == expected
