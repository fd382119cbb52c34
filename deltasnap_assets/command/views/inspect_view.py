"""`deltasnap inspect`: the condition of a table, the facts about one version, then the counts of a replay."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from rich.console import Console

from deltasnap_assets.command.output import print_json
from deltasnap_assets.command.terminal import error_text, output_console, print_problem, working
from deltasnap_assets.command.views.condition_view import (
    FaultyTableError,
    condition_of,
    explains,
    fault_line,
    print_condition,
    warn_of_unpublished,
    without_listed_warnings,
)
from deltasnap_assets.command.views.inspection import (
    InspectedVersion,
    Wanted,
    inspection_json,
    read_facts,
    show_facts,
    show_state,
)
from deltasnap_core import DeltaSnapError, TableCondition

if TYPE_CHECKING:
    from deltasnap_core import Snapshot  # loads PySpark


def inspect(path: str, storage_options: Mapping[str, Any], wanted: Wanted, *, as_json: bool) -> bool:
    """Print the facts about a version. Return whether all are shown.

    If the latest version cannot be read, the newest readable one is shown.
    Errors: FaultyTableError if a fault of the log keeps any version from being shown; errors of finding the version.
    """
    condition = condition_of(path, storage_options, *(() if wanted.version is None else (wanted.version,)))
    with without_listed_warnings():
        facts = _facts(path, storage_options, condition, wanted)
        print_condition(condition)
        problem = _problem(facts, condition, is_latest=wanted.is_latest)
        if not as_json:
            show_facts(output_console(), facts, None if problem is None else "the newest loadable version")
        problem = problem or _schema_problem(facts, condition)
        snapshot: Snapshot | None = None
        try:
            facts.check_readable()
            snapshot, wrong_in_checksum = _counted(facts, storage_options)
            condition = _compared(condition, facts, wrong_in_checksum)
        except DeltaSnapError as error:
            problem = error_text(str(error))
            if not condition.faults_at(facts.segment.version):  # else the message was printed already
                print_problem(Console(stderr=True), "error", problem)
    if as_json:
        print_json(inspection_json(facts, snapshot, condition, problem))
    elif snapshot is not None:
        show_state(output_console(), snapshot.computed_state, snapshot.computed_by)
    return problem is None


def _compared(condition: TableCondition, facts: InspectedVersion, wrong: Sequence[str]) -> TableCondition:
    """Return the condition with the fault of a checksum that differs from the counts. Print a new one."""
    if facts.segment.checksum_file is None:
        return condition
    version, path = facts.segment.version, facts.segment.checksum_file.path
    found = condition.with_wrong_checksum(version, path, wrong)
    if found is not condition:
        print_problem(Console(stderr=True), "warning", fault_line(found.faults[-1]))
    return found


def _facts(
    path: str, storage_options: Mapping[str, Any], condition: TableCondition, wanted: Wanted
) -> InspectedVersion:
    try:
        return read_facts(path, storage_options, wanted, condition)
    except DeltaSnapError as error:
        versions = () if wanted.version is None else (wanted.version,)
        if wanted.timestamp_ms is not None or not explains(condition, *versions):
            warn_of_unpublished(error, condition)
            raise
        if wanted.version is not None or condition.newest_loadable is None:
            raise FaultyTableError(condition) from error
    return read_facts(path, storage_options, replace(wanted, version=condition.newest_loadable), condition)


def _problem(facts: InspectedVersion, condition: TableCondition, *, is_latest: bool) -> str | None:
    """Return why the latest version is not shown; None: it is shown, or another one was requested."""
    shown = facts.segment.version
    if not is_latest or condition.latest is None or shown >= condition.latest:
        return None
    return f"Version {condition.latest} cannot be read. Showing version {shown} instead."


def _schema_problem(facts: InspectedVersion, condition: TableCondition) -> str | None:
    """Return why the schema of a version cannot be shown; None: it is shown. Print it unless the condition has it."""
    unknown = TableCondition(table=condition.table)
    of_version = unknown.with_schema_of(facts.metadata, facts.protocol, facts.place_of_metadata)
    for fault in of_version.faults:
        if (fault.kind, fault.facts) not in [(each.kind, each.facts) for each in condition.faults]:
            print_problem(Console(stderr=True), fault.mark, fault_line(fault))
        return error_text(fault.text)
    return None


def _counted(facts: InspectedVersion, storage_options: Mapping[str, Any]) -> tuple[Snapshot, tuple[str, ...]]:
    with working("Counting"):
        # Loading PySpark takes as long as everything before. The facts are already printed.
        from deltasnap_assets.command.views.counting import count  # noqa: PLC0415

        return count(facts, storage_options)
