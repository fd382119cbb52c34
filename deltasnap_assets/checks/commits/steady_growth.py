"""The check `steady_growth`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import Field

from deltasnap_assets.checks.check import Limits, Verdict, VersionCheck
from deltasnap_assets.quantities import bytes_text

if TYPE_CHECKING:
    from deltasnap_assets.checks.facts import VersionFacts

_LEAST_HISTORY = 5  # a version after fewer changes of the size has no verdict


class SteadyGrowthLimits(Limits):
    """The limit on changes of the size."""

    max_growth_factor: float = Field(default=10, ge=1)
    """The maximum change of the size by one version, as a multiple of the largest change in recent versions. It does
    not apply to a version after fewer than 5 changes.
    """


class SteadyGrowth(VersionCheck[SteadyGrowthLimits]):
    """The size does not change far more than in recent versions."""

    name = "steady_growth"
    asset = "computed_state"
    expects = "A version does not change the table's size far more than recent versions did."
    advice = "Check the writer of this version: an import may have run twice, or a delete may have removed too much."

    def verdicts(self, facts: VersionFacts, limits: SteadyGrowthLimits) -> dict[int, Verdict]:
        sizes = {version: state.size_in_bytes for version, state in sorted(facts.states.items())}
        steps = {version: size - sizes[version - 1] for version, size in sizes.items() if version - 1 in sizes}
        verdicts = {}
        for version in facts.versions:
            earlier = [abs(step) for number, step in steps.items() if number < version and step]
            if version not in steps or len(earlier) < _LEAST_HISTORY:
                continue
            step, most = steps[version], max(earlier) * limits.max_growth_factor
            word = "made the table grow" if step >= 0 else "made the table shrink"
            verdicts[version] = Verdict(
                passed=abs(step) <= most,
                description=(
                    f"Version {version} {word} by {bytes_text(abs(step))}. The largest of the {len(earlier)} changes "
                    f"before it was {bytes_text(max(earlier))}, at most {limits.max_growth_factor:g} times that is "
                    "expected."
                ),
                numbers={"growth_bytes": step},
            )
        return verdicts
