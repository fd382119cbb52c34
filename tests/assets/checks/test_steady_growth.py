from __future__ import annotations

from deltasnap_assets.checks.commits.steady_growth import SteadyGrowth, SteadyGrowthLimits
from deltasnap_assets.checks.facts import VersionFacts
from tests.assets.tables.test_metadata import state


def test_growth_is_compared_with_the_growth_of_earlier_versions() -> None:
    sizes = [100, 110, 120, 130, 140, 150, 160, 300, 299]
    states = {version: state(size_in_bytes=size) for version, size in enumerate(sizes)}
    facts = VersionFacts(versions=range(len(sizes)), states=states, schema_changes={})
    verdicts = SteadyGrowth().verdicts(facts, SteadyGrowthLimits())
    assert {version: verdict.passed for version, verdict in verdicts.items()} == {6: True, 7: False, 8: True}
    assert "Version 7 made the table grow by 140 B" in verdicts[7].description
