"""The check `schema_unchanged`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from deltasnap_assets.checks.check import Limits, Verdict, VersionCheck
from deltasnap_assets.texts import visible

if TYPE_CHECKING:
    from deltasnap_assets.checks.facts import VersionFacts


class SchemaUnchanged(VersionCheck[Limits]):
    """The schema is the same as in the stored version before. The first stored version has no verdict."""

    name = "schema_unchanged"
    asset = "computed_state"
    expects = "A version has the same schema as the version before."
    advice = "Check that readers of the table support the new schema."

    def verdicts(self, facts: VersionFacts, limits: Limits) -> dict[int, Verdict]:  # noqa: ARG002  # it has no limits
        verdicts = {}
        for version, changes in facts.schema_changes.items():
            texts = "; ".join(visible(change) for change in changes)
            before = max((each for each in facts.states if each < version), default=version - 1)
            who = f"Version {version}" if before == version - 1 else f"A version after {before}, up to {version},"
            text = f"{who} changed the schema: {texts}." if changes else "The schema did not change."
            numbers = {"schema_changes": len(changes)}
            verdicts[version] = Verdict(passed=not changes, description=text, numbers=numbers)
        return verdicts
