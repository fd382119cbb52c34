"""Refreshes tables from the terminal, on the instance of this folder, and shows progress."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import dagster as dg
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress as ProgressBars, TaskID, TextColumn, TimeElapsedColumn
from rich.table import Column
from rich.text import Text

from deltasnap_assets.all_definitions import build_definitions
from deltasnap_assets.command.local.local_instance import use_local_instance
from deltasnap_assets.command.terminal import Verbosity, error_text, output_to, print_line, print_problem, shown
from deltasnap_assets.command.views.condition_view import condition_lines
from deltasnap_assets.quantities import counted
from deltasnap_assets.runs.condition.fault_texts import unexplained
from deltasnap_assets.runs.condition.log_conditions import BrokenTableError
from deltasnap_assets.runs.condition.poll_findings import VERSIONS
from deltasnap_assets.runs.decide import Request, Say, decide
from deltasnap_assets.runs.fleet import unfollowed_tables
from deltasnap_assets.runs.observe import Asked, Seen
from deltasnap_assets.runs.planning.plan import Plan
from deltasnap_assets.runs.refresh import RefreshError, refresh_table
from deltasnap_assets.runs.stores import store_of
from deltasnap_assets.settings.config import Settings
from deltasnap_assets.settings.table_settings import ASSET_NAMES, TableSettings
from deltasnap_assets.tables.pages.table_observation import health_of
from deltasnap_core import DeltaSnapError, Problem, TableCondition, VersionRanges
from deltasnap_core.support import problem_json, system_clock

LOG_NAME = "refresh.log"


@dataclass(frozen=True, slots=True, kw_only=True)
class Refreshed:
    """The result of one table: the versions stored, and its health now, or the error.

    condition: of its log, as JSON; None: the refresh did not fail because of it.
    problems: the current ones, as in the fleet, the latest first, as JSON; empty if the results are printed.
    """

    versions: tuple[int, ...] = ()
    health: str | None = None
    error: str | None = None
    condition: dict[str, Any] | None = None
    problems: tuple[dict[str, Any], ...] = ()


def refresh_tables(settings: Settings, names: Sequence[str], *, is_silent: bool = False) -> dict[str, Refreshed]:
    """Refresh the tables of these names, one after another. Return the result of each.

    Also prints the results, unless `is_silent`. If a table fails, the others are still refreshed.
    """
    home = use_local_instance()
    log = home / LOG_NAME
    with output_to(log) as consoles, dg.DagsterInstance.get() as instance:
        nothing = Console(quiet=True)
        out, err = (
            nothing if is_silent or Verbosity.is_quiet() else consoles[0],
            nothing if is_silent else consoles[1],
        )
        defs = build_definitions(settings)
        done = {name: _refresh(out, err, defs, settings, settings.table(name), instance, log) for name in names}
    if not is_silent:
        return done
    recorded = {name: tuple(problem_json(problem) for problem in _recorded(settings, name)) for name in done}
    return {name: replace(each, problems=recorded[name]) for name, each in done.items()}


def planned_versions(settings: Settings, name: str) -> tuple[VersionRanges | None, str]:
    """Return the versions of a table that a refresh would materialize now, and a note; None: the note is an error.

    The note tells how many versions it leaves for later runs, or which run is in progress. It reads the log and the
    store. If the log was rolled back, its fork is recorded, as by any poll.
    """
    use_local_instance()
    with dg.DagsterInstance.get() as instance:
        seen = Seen(settings=settings, table=settings.table(name), instance=instance, asked=Asked.USER)
        try:
            steps = decide(seen, system_clock())
        except DeltaSnapError as error:
            return None, str(error)
    requests = [range(step.first, step.last + 1) for step in steps if isinstance(step, Request)]
    versions = VersionRanges.of(version for each in requests for version in each)
    plans = [step.num_left for step in steps if isinstance(step, Plan)]
    notes = [f"{counted(number, 'version')} left for later runs" for number in plans if number]
    said = [step.text for step in steps if isinstance(step, Say)] if not versions else []
    return versions, "; ".join([*notes, *said])


def report_unfollowed_tables(settings: Settings) -> None:
    """Print a warning for each table that `discover` no longer finds or cannot follow."""
    with suppress(DeltaSnapError):  # of the store: each refresh reports it
        for name, problem in unfollowed_tables(settings).items():
            print_problem(Console(stderr=True), problem.mark, f"{name}: {problem.text} {problem.advice}")


def _refresh(
    out: Console,
    err: Console,
    defs: dg.Definitions,
    settings: Settings,
    table: TableSettings,
    instance: dg.DagsterInstance,
    log: Path,
) -> Refreshed:
    stored: set[int] = set()
    try:
        with RunProgress(out, table.name) as progress:
            refresh_table(
                defs,
                settings,
                table,
                instance,
                on_event=progress.show,
                on_stored=stored.update,
                on_warning=partial(print_problem, err, "warning"),
            )
    except Exception as error:  # noqa: BLE001  # for any error, the other tables are refreshed
        if stored:
            out.print(f"{table.name}: {versions_text(sorted(stored))}", highlight=False)
        return _failed(err, table.name, error, sorted(stored), log)
    if none_wanted := [each for each in _recorded(settings, table.name) if each.check == VERSIONS]:
        print_problem(err, "warning", f"{none_wanted[0].text} {none_wanted[0].advice}")
    else:
        out.print(f"{table.name}: {versions_text(sorted(stored))}", highlight=False)
    if health := health_of(instance, table):
        print_line(out, Text(error_text(f"{table.name}: {health}")))
    return Refreshed(versions=tuple(sorted(stored)), health=health)


def _failed(err: Console, table: str, error: Exception, stored: Sequence[int], log: Path) -> Refreshed:
    """Print why the refresh of a table failed, and return it. Each cause is printed once."""
    what = "" if isinstance(error, DeltaSnapError) else f"{type(error).__name__}: "
    problem = f"{table}: {what}{error}"
    condition: TableCondition | None = getattr(error, "condition", None)
    is_broken = isinstance(error, BrokenTableError)
    is_explained = isinstance(error, RefreshError) and not unexplained(condition, error.failure)
    if not is_broken and not is_explained:
        print_problem(err, "error", problem)
    for each in error.problems if isinstance(error, BrokenTableError) else ():
        print_problem(err, "error", f"{table}: {each.check}: {each.text} {each.advice}")
    for mark, text in () if condition is None else condition_lines(condition):
        print_problem(err, mark, f"{table}: {text}")
    if not is_broken:
        print_line(err, shown(f"Output of Spark and Dagster: {log}", style="dim"))
    return Refreshed(
        versions=tuple(stored),
        error=error_text(problem),
        condition=None if condition is None else condition.to_json(),
    )


def _recorded(settings: Settings, table: str) -> tuple[Problem, ...]:
    """Return the problems of a table as in the fleet; empty if the store cannot be read: the refresh reports that."""
    with suppress(DeltaSnapError):
        return store_of(settings).polls.problems(table, system_clock())
    return ()


def versions_text(versions: Sequence[int]) -> str:
    """Return a summary of the materialized versions."""
    match versions:
        case []:
            return "up to date"
        case [version]:
            return f"version {version} materialized"
        case [first, *_, last] if last - first + 1 == len(versions):
            return f"versions {first} to {last} materialized"
        case _:
            return f"{len(versions)} versions between {versions[0]} and {versions[-1]} materialized"


class RunProgress:
    """A progress bar for each range of versions of a table: the materializations so far, and the last message."""

    def __init__(self, console: Console, table: str) -> None:
        self._table = table
        self._bars = ProgressBars(
            TextColumn("{task.description}"),
            BarColumn(bar_width=20),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn(
                "{task.fields[message]}",
                style="dim",
                markup=False,
                table_column=Column(ratio=1, no_wrap=True, overflow="ellipsis"),
            ),
            console=console,
            expand=True,
        )
        self._task_of: dict[range, TaskID] = {}

    def __enter__(self) -> RunProgress:
        return self

    def __exit__(self, *_: object) -> None:
        for task in self._bars.tasks:
            if task.finished:
                self._bars.update(task.id, message="")  # Dagster's last message of a run is not useful
        if self._bars.tasks:
            self._bars.stop()  # without a bar, it would print an empty line

    def show(self, versions: range, message: str) -> None:
        """Update the bar of some versions with one event of their run."""
        self._bars.start()
        if versions not in self._task_of:
            text = f"{versions[0]}" if len(versions) == 1 else f"{versions[0]} to {versions[-1]}"
            total = len(ASSET_NAMES) * len(versions)
            self._task_of[versions] = self._bars.add_task(f"{self._table} {text}", total=total, message="")
        is_materialization = message.startswith("Materialized ")
        message = shown(message.partition("\n")[0]).plain
        self._bars.update(self._task_of[versions], advance=1 if is_materialization else 0, message=message)
