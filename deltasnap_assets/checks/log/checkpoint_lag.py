"""The check `checkpoint_lag`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import Field

from deltasnap_assets.checks.check import Limits, PageCheck, Verdict
from deltasnap_assets.quantities import counted

if TYPE_CHECKING:
    from deltasnap_assets.checks.facts import PageFacts


class CheckpointLagLimits(Limits):
    """The limit on commits since the last checkpoint."""

    max_commits_since_checkpoint: int = Field(default=200, ge=1)
    """The maximum number of commits since the last checkpoint."""


class CheckpointLag(PageCheck[CheckpointLagLimits]):
    """The number of commits after the newest checkpoint is within the limit."""

    name = "checkpoint_lag"
    asset = "log_segment"
    expects = "The number of commits since the last checkpoint is within the limit."
    advice = (
        "Run `deltasnap checkpoint PATH`, or set `checkpoint: {after_commits: 100}` for the table. Writers write one "
        "every `delta.checkpointInterval` commits."
    )

    def verdict(self, facts: PageFacts, limits: CheckpointLagLimits) -> Verdict:
        lag, most = len(facts.segment.deltas), limits.max_commits_since_checkpoint
        since = "and no checkpoint" if facts.segment.checkpoint_provider.is_empty else "since the last checkpoint"
        return Verdict(
            passed=lag <= most,
            description=f"{counted(lag, 'commit')} {since}, at most {most:,} expected.",
            numbers={"commits_since_checkpoint": lag},
        )
