from __future__ import annotations

from deltasnap_assets.checks.check import Limits
from deltasnap_assets.checks.log.readable_protocol import ReadableProtocol
from deltasnap_core import ProblemKind, Protocol
from tests.assets.checks.known import NO_TABLE, UNSUPPORTED, KnownTableFacts, condition, fault, versions
from tests.assets.tables.pages.metadata_builders import state

CHECK = ReadableProtocol()


def test_supported_table_passes_with_its_reader_version_if_a_state_is_stored() -> None:
    assert CHECK.of_condition(condition()).description == "deltasnap supports all features of version 5."
    reported = CHECK.verdict(KnownTableFacts(loadable_state=state()), Limits())
    assert (reported.description, reported.numbers) == ("Reader version 3 is supported.", {"min_reader_version": 3})
    assert CHECK.verdict(KnownTableFacts(loadable_state=state(protocol=None)), Limits()).numbers == {}


def test_versions_that_a_catalog_has_not_published_are_unknown() -> None:
    managed = Protocol(min_reader_version=3, min_writer_version=7, reader_features=("catalogManaged",))
    text = CHECK.verdict(KnownTableFacts(loadable_state=state(protocol=managed)), Limits()).description
    assert text.endswith("was not queried: versions that it has not published are unknown.")


def test_unsupported_protocol_and_broken_schema_are_errors() -> None:
    verdict = CHECK.verdict(KnownTableFacts(condition=UNSUPPORTED, loadable_state=state()), Limits())
    assert (verdict.passed, verdict.severity, verdict.advice) == (False, "error", "Repair unsupported_protocol.")
    broken = CHECK.of_condition(condition(fault(ProblemKind.BROKEN_SCHEMA, versions=versions(5, 5))))
    assert (broken.passed, broken.description) == (False, "Problem broken_schema.")


def test_table_unreadable_for_another_reason_is_not_evaluated() -> None:
    verdict = CHECK.of_condition(NO_TABLE)
    assert (verdict.is_evaluated, verdict.passed) == (False, False)  # an earlier failure is not over
    gap = fault(ProblemKind.MISSING_COMMIT, versions=versions(3, 5))
    assert not CHECK.of_condition(condition(gap, loadable=versions(0, 2))).is_evaluated
