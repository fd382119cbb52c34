"""The check of the checksums of a table, executed in Dagster on a real store, without Spark."""

from __future__ import annotations

import json
from pathlib import Path

import dagster as dg
import pytest

from deltasnap_core import DeltaLog
from deltasnap_core.protocol.log_files.file_names import checksum_file
from tests.assets.tables.checks.checks_alone_builders import LAST, Table, stored


@pytest.fixture
def table(tmp_path: Path) -> Table:
    return stored(tmp_path)


def checksum_of(table: Table) -> Path:
    return table.path / "_delta_log" / checksum_file(LAST)


def result(table: Table) -> dg.AssetCheckEvaluation:
    return table.check("checksum_agrees", "computed_state", version=LAST)


def test_checksum_that_states_what_the_log_has_passes(table: Table) -> None:
    state = DeltaLog.for_table(None, table.path).snapshot.computed_state
    counts = {"tableSizeBytes": state.size_in_bytes, "numFiles": state.num_of_files}
    checksum_of(table).write_text(json.dumps({**counts, "numMetadata": 1, "numProtocol": 1}), encoding="utf-8")
    found = result(table)
    assert (found.passed, found.description) == (True, "The log agrees with 1 checksum.")


def test_checksum_that_cannot_be_read_is_a_warning_with_its_version(table: Table) -> None:
    checksum_of(table).write_bytes(b"{no json")
    found = result(table)
    assert (found.passed, found.severity) == (False, dg.AssetCheckSeverity.WARN)
    assert str(found.description).startswith(f"1 checksum cannot be read: version {LAST}. The log is read instead.")


@pytest.mark.slow
def test_checksum_that_was_written_after_its_version_was_stored_is_compared_with_the_next_version(table: Table) -> None:
    checksum_of(table).rename(table.path / "_delta_log" / checksum_file(LAST - 1))
    found = result(table)
    assert str(found.description).startswith(f"The log differs from 1 checksum: version {LAST - 1}: ")
    assert found.severity is dg.AssetCheckSeverity.ERROR
    assert [(each.check, each.severity) for each in table.poll.problems] == [("checksum_agrees", "error")]
    assert table.evaluations("checksum_agrees", "computed_state", (LAST - 2, LAST - 2)) == []


@pytest.mark.slow
def test_check_of_a_checksum_that_was_deleted_is_not_evaluated_and_its_failure_is_over(table: Table) -> None:
    assert not result(table).passed
    assert [problem.check for problem in table.poll.problems] == ["checksum_agrees"]
    checksum_of(table).unlink()
    assert table.evaluations("checksum_agrees", "computed_state", (LAST, LAST)) == []
    assert table.poll.problems == ()
