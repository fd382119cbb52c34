from __future__ import annotations

from deltasnap_assets.checks.check import Limits
from deltasnap_assets.checks.commits.schema_unchanged import SchemaUnchanged
from deltasnap_assets.checks.facts import VersionFacts


def test_schema_change_fails_the_check_of_its_version() -> None:
    changes = {4: (), 5: ("column new added (string)", "column old dropped (bigint)")}
    facts = VersionFacts(versions=(3, 4, 5), states={}, schema_changes=changes)
    verdicts = SchemaUnchanged().verdicts(facts, Limits())
    assert {version: verdict.passed for version, verdict in verdicts.items()} == {4: True, 5: False}
    reported = "Version 5 changed the schema: column new added (string); column old dropped (bigint)."
    assert (verdicts[5].description, verdicts[5].numbers) == (reported, {"schema_changes": 2})
