from __future__ import annotations

from deltasnap_assets.checks.check_settings import CheckSettings
from deltasnap_assets.checks.log import readable_protocol
from deltasnap_assets.checks.registry import READABLE_PROTOCOL
from deltasnap_core import ProblemKind, Protocol
from tests.assets.checks.known import NO_TABLE, UNSUPPORTED, KnownTableFacts, condition, fault, versions
from tests.assets.tables.pages.metadata_builders import state

CHECK = READABLE_PROTOCOL


def test_supported_table_passes_with_its_reader_version_if_a_state_is_stored() -> None:
    assert readable_protocol(condition()).description == "deltasnap supports all features of version 5."
    reported = CHECK.judge(KnownTableFacts(loadable_state=state()), CheckSettings())
    assert (reported.description, reported.numbers) == ("Reader version 3 is supported.", {"min_reader_version": 3})
    assert CHECK.judge(KnownTableFacts(loadable_state=state(protocol=None)), CheckSettings()).numbers == {}


def test_versions_that_a_catalog_has_not_published_are_unknown() -> None:
    managed = Protocol(min_reader_version=3, min_writer_version=7, reader_features=("catalogManaged",))
    text = CHECK.judge(KnownTableFacts(loadable_state=state(protocol=managed)), CheckSettings()).description
    assert text.endswith("was not queried: versions that it has not published are unknown.")


def test_unsupported_protocol_and_broken_schema_are_errors() -> None:
    verdict = CHECK.judge(KnownTableFacts(condition=UNSUPPORTED, loadable_state=state()), CheckSettings())
    assert (verdict.passed, verdict.severity, verdict.advice) == (False, "error", "Repair unsupported_protocol.")
    broken = readable_protocol(condition(fault(ProblemKind.BROKEN_SCHEMA, versions=versions(5, 5))))
    assert (broken.passed, broken.description) == (False, "Problem broken_schema.")


def test_table_unreadable_for_another_reason_is_not_evaluated() -> None:
    verdict = readable_protocol(NO_TABLE)
    assert (verdict.is_evaluated, verdict.passed) == (False, False)  # an earlier failure is not over
    gap = fault(ProblemKind.MISSING_COMMIT, versions=versions(3, 5))
    assert not readable_protocol(condition(gap, loadable=versions(0, 2))).is_evaluated
