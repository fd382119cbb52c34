from __future__ import annotations

from deltasnap_assets.checks.check_settings import CheckSettings
from deltasnap_assets.checks.registry import SCHEMA_UNCHANGED
from tests.assets.checks.known import KnownTableFacts


def test_schema_change_fails_the_check_of_its_version() -> None:
    changes = {4: (), 5: ("column new added (string)", "column old dropped (bigint)")}
    facts = KnownTableFacts(versions=(3, 4, 5), schema_changes=changes)
    verdicts = SCHEMA_UNCHANGED.judge(facts, CheckSettings())
    assert {version: verdict.passed for version, verdict in verdicts.items()} == {4: True, 5: False}
    reported = "Version 5 changed the schema: column new added (string); column old dropped (bigint)."
    assert (verdicts[5].description, verdicts[5].numbers) == (reported, {"schema_changes": 2})
