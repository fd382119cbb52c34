"""The condition of a table on the terminal: faults of its log, advice, loadable versions."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from rich.console import Console

from deltasnap_assets.command.terminal import print_problem
from deltasnap_assets.quantities import counted
from deltasnap_assets.spark.java import JavaError
from deltasnap_core import DeltaSnapError, Problem, ProblemKind, TableCondition, TableLog, VersionNotFoundError

_EXAMINED = ("deltasnap_core.log.loaded_log", "deltasnap_core.log.listing.log_segment_builder")
_OF_COMMITS = {
    ProblemKind.CORRUPT_COMMIT: "cannot be read",
    ProblemKind.MISSING_COMMIT: "missing",
    ProblemKind.UNNEEDED_COMMIT: "missing",
}


class FaultyTableError(DeltaSnapError):
    """A table cannot be read because of the faults in `condition`."""

    def __init__(self, condition: TableCondition) -> None:
        self.condition = condition
        super().__init__("\n".join(self.lines))

    @property
    def lines(self) -> tuple[str, ...]:
        """The message, one line for each fault that keeps a version from loading."""
        return tuple(text for mark, text in condition_lines(self.condition) if mark == "error")


def condition_of(path: str, storage_options: Mapping[str, Any], *versions: int) -> TableCondition:
    """Return the condition of a table. Reads every page of its newest checkpoint.

    versions: those to check, with all later ones; empty: the latest.
    Errors: the errors of a path without a usable storage.
    """
    return TableLog.for_path(path, storage_options).condition(first=min(versions, default=None))


def condition_lines(condition: TableCondition) -> Iterator[tuple[str, str]]:
    """Yield for each fault its mark, and one line with the fault and the advice. Damaged commits share a line."""
    for mark, text in fault_lines(condition.faults):
        is_partly_loadable = mark == "error" and condition.loadable
        yield mark, f"{text} Loadable: {counted_versions(condition.loadable)}." if is_partly_loadable else text


def fault_lines(faults: Sequence[Problem]) -> Iterator[tuple[str, str]]:
    """Yield marks and lines: one for all damaged commits, one for all missing commits, one for each other fault."""
    for fault in faults:
        alike = [each for each in faults if (each.kind, each.mark) == (fault.kind, fault.mark)]
        if fault.kind not in _OF_COMMITS or len(alike) == 1:
            yield fault.mark, fault_line(fault)
        elif fault is alike[0]:
            more = sum(len(each.missing) or 1 for each in alike[1:])
            others = f"{counted(more, 'more commit')} {_OF_COMMITS[fault.kind]}: `deltasnap history` shows where."
            yield fault.mark, f"{fault.text} {others} {fault.advice}"


def fault_line(fault: Problem) -> str:
    """Return the fault and the advice."""
    return f"{fault.text} {fault.advice}"


def counted_versions(versions: Any) -> str:
    """Return versions as text: "version 3", "versions 0 to 5, 8 to 9". versions: ranges of the core."""
    return f"{'version' if len(versions) == 1 else 'versions'} {versions.text()}"


def print_condition(condition: TableCondition) -> None:
    """Print the faults of a table on stderr, one line each."""
    for mark, text in condition_lines(condition):
        print_problem(Console(stderr=True), mark, text)


def warn_of_unpublished(error: DeltaSnapError, condition: TableCondition) -> None:
    """Print a warning on stderr if a version was not found, but has a staged commit, or a version before it has one."""
    if isinstance(error, VersionNotFoundError) and error.latest is not None and error.version > error.latest:
        for fault in condition.faults_of(ProblemKind.UNPUBLISHED_COMMIT):
            print_problem(Console(stderr=True), fault.mark, fault_line(fault))


@contextmanager
def explaining(path: str, storage_options: Mapping[str, Any], *versions: int) -> Iterator[None]:
    """Raise FaultyTableError, with advice, if reading a table fails because of a fault of its log.

    versions: the versions to read, or the first and last of them; empty: the latest.
    """
    try:
        yield
    except JavaError:
        raise  # not about the table: do not examine its log
    except DeltaSnapError as error:
        condition = condition_of(path, storage_options, *versions)
        between = (error.version,) if versions and isinstance(error, VersionNotFoundError) else ()
        if not explains(condition, *versions, *between):
            warn_of_unpublished(error, condition)
            raise
        raise FaultyTableError(condition) from error


def explains(condition: TableCondition, *versions: int) -> bool:
    """Return whether the faults of a table explain why one of these versions, or the latest, cannot be read."""
    read = versions or (() if condition.latest is None else (condition.latest,))
    return not condition.is_reachable or any(condition.faults_at(version) for version in read)


@contextmanager
def without_listed_warnings() -> Iterator[None]:
    """Suppress warnings of the core about checkpoints and hints that it skips: the condition already lists them.

    For commands that print a condition for which all pages were read.
    """
    handlers = logging.getLogger("deltasnap_core").handlers
    for handler in handlers:
        handler.addFilter(_is_news)
    try:
        yield
    finally:
        for handler in handlers:
            handler.removeFilter(_is_news)


def _is_news(record: logging.LogRecord) -> bool:
    return record.name not in _EXAMINED


def fault_of_commit(condition: TableCondition, version: int) -> Problem | None:
    """Return why the commit of a version is missing or unreadable; None: no fault is known."""
    found = (fault for fault in condition.faults if fault.kind in _OF_COMMITS or fault.kind.is_of_access)
    return next((fault for fault in found if version in fault.where.versions), None)
