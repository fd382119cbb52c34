"""The search for a version by its time."""

from __future__ import annotations

import pytest

from deltasnap_core.log.history.commit_timestamps import last_at_or_before

TIMES = {3: 100, 4: 200, 5: 200, 6: 300}


@pytest.mark.parametrize(
    ("time", "version"), [(99, None), (100, 3), (199, 3), (200, 5), (299, 5), (300, 6), (10**15, 6)]
)
def test_last_version_at_or_before_a_time_is_found(time: int, version: int | None) -> None:
    assert last_at_or_before(list(TIMES), time, TIMES.__getitem__) == version


def test_last_version_of_an_empty_list_is_none() -> None:
    assert last_at_or_before([], 100, TIMES.__getitem__) is None
