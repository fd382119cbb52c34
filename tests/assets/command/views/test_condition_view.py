"""The condition of a table as lines, and which faults explain a failure."""

from __future__ import annotations

import logging

import pytest

from deltasnap_assets.command.views import condition_view
from deltasnap_assets.command.views.condition_view import (
    FaultyTableError,
    condition_lines,
    explaining,
    explains,
    fault_of_commit,
    print_condition,
    without_listed_warnings,
)
from deltasnap_assets.spark.java import JavaError
from deltasnap_core import ProblemKind, TableCondition, VersionGapError, VersionNotFoundError
from tests.assets.checks.known import NO_TABLE, condition, fault, versions

LOST = fault(ProblemKind.MISSING_COMMIT, at=versions(3, 4), versions=versions(3, 5))
EMPTY = fault(ProblemKind.EMPTY_COMMIT)
BROKEN = condition(LOST, EMPTY, loadable=versions(0, 2))


def test_each_fault_is_a_line_and_errors_name_the_loadable_versions(capsys: pytest.CaptureFixture[str]) -> None:
    error, warning = "Problem missing_commit. Repair missing_commit.", "Problem empty_commit. Repair empty_commit."
    assert list(condition_lines(BROKEN)) == [
        ("error", f"{error} Loadable: versions 0 to 2."),
        (EMPTY.mark, warning),
    ]
    assert FaultyTableError(BROKEN).lines == (f"{error} Loadable: versions 0 to 2.",)
    assert str(FaultyTableError(BROKEN)) == f"{error} Loadable: versions 0 to 2."
    assert list(condition_lines(NO_TABLE)) == [("error", "Problem no_table. Repair no_table.")]
    one = condition(LOST, loadable=versions(2, 2))
    assert next(condition_lines(one))[1].endswith(" Loadable: version 2.")
    print_condition(BROKEN)
    assert capsys.readouterr().err.splitlines() == [
        f"error: {error} Loadable: versions 0 to 2.",
        f"warning: {warning}",
    ]


@pytest.mark.parametrize(
    ("found", "read", "expected"),
    [
        (BROKEN, (), True),
        (BROKEN, (2,), False),
        (BROKEN, (2, 3), True),
        (condition(), (), False),
        (condition(), (3,), False),
        (NO_TABLE, (), True),
        (NO_TABLE, (3,), True),
        (condition(fault(ProblemKind.ACCESS_DENIED), latest=None), (), True),
        (condition(fault(ProblemKind.STORAGE_FAILED)), (1,), True),
        (condition(EMPTY), (), False),
    ],
)
def test_fault_explains_a_failure_to_read_its_versions(
    found: TableCondition, read: tuple[int, ...], expected: bool
) -> None:
    assert explains(found, *read) == expected


READ = fault(ProblemKind.CORRUPT_COMMIT, at=versions(3, 3), versions=versions(3, 5))


def test_commit_that_is_missing_or_unreadable_has_a_fault() -> None:
    assert [fault_of_commit(BROKEN, version) for version in (2, 3, 4, 5)] == [None, LOST, LOST, None]
    read = condition(EMPTY, READ, loadable=versions(0, 2))
    assert [fault_of_commit(read, version) for version in (2, 3, 4)] == [None, READ, None]
    assert fault_of_commit(NO_TABLE, 3) is None
    assert fault_of_commit(condition(EMPTY), 3) is None


def raised(error: Exception, *read: int) -> None:
    with explaining("/t", {"a": "1"}, *read):
        raise error


def test_failure_that_the_log_explains_names_its_faults(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[object] = []

    def condition_of(*given: object) -> TableCondition:
        asked.append(given)
        return BROKEN

    monkeypatch.setattr(condition_view, "condition_of", condition_of)
    gap = VersionGapError(path="/t", version=5, missing=versions(3, 4))
    with pytest.raises(FaultyTableError) as found:
        raised(gap)
    assert (found.value.condition, found.value.__cause__) == (BROKEN, gap)
    with pytest.raises(VersionGapError):
        raised(gap, 2)
    absent = VersionNotFoundError(path="/t", version=4, earliest=0, latest=5)
    with pytest.raises(FaultyTableError):
        raised(absent, 0, 2)  # the version that was not found is lost
    with pytest.raises(JavaError):
        raised(JavaError("No Java found."))
    assert asked == [("/t", {"a": "1"}), ("/t", {"a": "1"}, 2), ("/t", {"a": "1"}, 0, 2)]


def test_warnings_that_a_condition_lists_are_suppressed_while_it_is_printed(caplog: pytest.LogCaptureFixture) -> None:
    core, handler = logging.getLogger("deltasnap_core"), caplog.handler
    core.addHandler(handler)
    core.propagate, is_propagated = False, core.propagate
    try:
        with without_listed_warnings():
            logging.getLogger("deltasnap_core.log.loaded_log").warning("listed")
            logging.getLogger("deltasnap_core.log.table_log").warning("other")
        logging.getLogger("deltasnap_core.log.loaded_log").warning("later")
    finally:
        core.removeHandler(handler)
        core.propagate = is_propagated
    assert caplog.messages == ["other", "later"]
