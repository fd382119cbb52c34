from __future__ import annotations

from deltasnap_assets.checks.check import Verdict
from deltasnap_assets.checks.check_settings import CheckSettings
from deltasnap_assets.checks.registry import STEADY_GROWTH
from tests.assets.checks.known import KnownTableFacts
from tests.assets.tables.pages.metadata_builders import state


def verdicts_of(*sizes: int | None) -> dict[int, Verdict]:
    """Return the verdicts of versions of these sizes; None: the version is not stored."""
    states = {version: state(size_in_bytes=size) for version, size in enumerate(sizes) if size is not None}
    facts = KnownTableFacts(versions=range(len(sizes)), states=dict(reversed(states.items())))
    return STEADY_GROWTH.judge(facts, CheckSettings())


def test_growth_is_compared_with_the_growth_of_earlier_versions() -> None:
    verdicts = verdicts_of(100, 110, 120, 130, 140, 150, 250, 1251, 1250)
    assert {version: verdict.passed for version, verdict in verdicts.items()} == {6: True, 7: False, 8: True}
    assert verdicts[7].numbers == {"growth_bytes": 1001}
    assert verdicts[7].description == (
        "Version 7 made the table grow by 1001 B. The largest of the 6 changes before it was 100 B, at most 10 times "
        "that is expected."
    )
    assert verdicts[8].description.startswith("Version 8 made the table shrink by 1 B.")


def test_versions_without_a_change_of_the_size_or_without_the_one_before_do_not_count() -> None:
    assert verdicts_of(0, 1, 2, None, 3, 4, 4, 5, 6, 6).keys() == {9}
    assert verdicts_of(0, 1, 2, 3, 4, 5, 5)[6].description.startswith("Version 6 made the table grow by 0 B.")
