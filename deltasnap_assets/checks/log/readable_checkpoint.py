"""The check `readable_checkpoint`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from deltasnap_assets.checks.check import Limits, Verdict, not_evaluated
from deltasnap_assets.checks.log.condition_check import ConditionCheck, failed, unsupported

if TYPE_CHECKING:
    from deltasnap_assets.checks.facts import TableFacts
    from deltasnap_core import TableCondition


class ReadableCheckpoint(ConditionCheck):
    """The newest checkpoint can be read completely, now or when its pages were last read, and has the right files."""

    name = "readable_checkpoint"
    expects = (
        "The newest checkpoint can be read: its footer, its pages, its parts and sidecars. It has as many files as the "
        "stored version, and the hint _last_checkpoint is right."
    )
    advice = "Move the damaged or wrong checkpoint out of _delta_log, and write a new one."

    def verdict(self, facts: TableFacts, limits: Limits) -> Verdict:  # noqa: ARG002  # it has no limits
        return self.of_condition(facts.condition, checkpoint_known_sound=facts.checkpoint_known_sound)

    def of_condition(self, condition: TableCondition, *, checkpoint_known_sound: bool = False) -> Verdict:
        """Return the verdict.

        checkpoint_known_sound: the pages of the newest checkpoint were read before, and it has not changed since then.
        """
        if reason := unsupported(condition):
            return not_evaluated(reason)
        if condition.latest is None:
            return not_evaluated(condition.text)
        faults = [fault for fault in condition.faults if fault.kind.is_of_checkpoint_or_hint]
        numbers = {"damaged_checkpoints": len(faults)}
        if faults:
            return failed(faults, numbers=numbers)
        if not condition.checkpoints_read:
            return Verdict(passed=True, description="There is no checkpoint.", numbers=numbers)
        name = condition.checkpoints_read[0]
        if not condition.pages_read and not checkpoint_known_sound:
            return not_evaluated(f"the pages of {name} were not read.")
        when = "is readable" if condition.pages_read else "was readable, and has not changed since then"
        return Verdict(passed=True, description=f"Every page of {name} {when}.", numbers=numbers)
