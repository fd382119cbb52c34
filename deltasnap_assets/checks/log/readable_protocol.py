"""The check `readable_protocol`."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from deltasnap_assets.checks.check import Limits, Verdict, not_evaluated
from deltasnap_assets.checks.log.condition_check import ConditionCheck, failed
from deltasnap_core.support import is_catalog_managed

if TYPE_CHECKING:
    from deltasnap_assets.checks.facts import TableFacts
    from deltasnap_core import TableCondition


class ReadableProtocol(ConditionCheck):
    """deltasnap supports the protocol and schema of the latest version."""

    name = "readable_protocol"
    expects = "deltasnap supports the protocol and schema of the table."
    advice = (
        "Upgrade to a release of deltasnap that supports the feature, or drop the feature (`ALTER TABLE ... DROP "
        "FEATURE`) for readers that do not support it."
    )

    def verdict(self, facts: TableFacts, limits: Limits) -> Verdict:
        verdict, state = super().verdict(facts, limits), facts.loadable_state
        if not verdict.passed or state is None or state.protocol is None:
            return verdict
        needed = state.protocol.min_reader_version
        text = f"Reader version {needed} is supported."
        if is_catalog_managed(state.protocol):
            text += " A catalog manages the table and was not queried: versions that it has not published are unknown."
        return replace(verdict, description=text, numbers={"min_reader_version": needed})

    def of_condition(self, condition: TableCondition) -> Verdict:
        protocol = [fault for fault in condition.faults if fault.kind.is_of_protocol]
        if protocol and not condition.is_readable:
            return failed(protocol)
        if condition.latest is None:
            return not_evaluated(condition.text)
        if faults := [*protocol, *(fault for fault in condition.faults if fault.kind.is_of_schema)]:
            return failed(faults)
        if not condition.is_readable:
            return not_evaluated(condition.text)
        return Verdict(passed=True, description=f"deltasnap supports all features of version {condition.latest}.")
