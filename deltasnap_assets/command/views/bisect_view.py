"""`deltasnap bisect`: searches the version that broke an expectation, and shows it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from functools import partial
from typing import Any

import pyarrow as pa
import typer
from rich.console import Console

from deltasnap_assets.command.output import OutputFormat, print_json
from deltasnap_assets.command.rows.exact_values import json_rows
from deltasnap_assets.command.rows.row_options import DEFAULT_LIMIT, RowFormat
from deltasnap_assets.command.rows.row_output import cut_rows, valid_condition, write_rows
from deltasnap_assets.command.table_on_spark import Place, spark_aside, versions_of
from deltasnap_assets.command.terminal import Verbosity, output_console, print_line, print_notice, shown
from deltasnap_assets.command.views.condition_view import explaining
from deltasnap_assets.provenance import made_by
from deltasnap_assets.quantities import counted, iso_time, time_text
from deltasnap_core import DeltaHistory
from deltasnap_core.errors import PredicateError
from deltasnap_core.support import Bisection, Judgement, Outcome

_PARTS = ("user", "job", "notebook", "engine")
_MOST_FILES = 10


def show_bisection(place: Place, wanted: Mapping[str, Any], form: OutputFormat, limit: int | None) -> bool:
    """Print the result of a search, and return whether a version was found.

    wanted: BisectOptions. limit: of rows; 0: all; None: the default.
    Errors: typer.BadParameter for an invalid expectation; JavaError; FaultyTableError; those of `Table.bisect`.
    """
    most = DEFAULT_LIMIT if limit is None else limit or None
    ends = [wanted[name] for name in ("good", "bad") if wanted[name] is not None]
    with (
        explaining(place.path, place.options, *ends),
        spark_aside(place.path) as err,
        valid_condition(wanted["where"]),
        _valid_arguments(),
    ):
        found = versions_of(place).bisect(**wanted, on_step=partial(_print_step, err))
        rows, is_cut = pa.table({}), False
        if found.rows is not None:
            wanted_rows = found.rows if most is None else found.rows.limit(most + 1)
            rows, is_cut = cut_rows(wanted_rows.to_arrow(), most)
    match form:
        case "json":
            print_json({**bisection_json(found), "rows": _row_values(rows), "more_rows": is_cut})
        case "csv":
            _write(rows, "csv")
        case "table":
            for line in bisection_lines(found):
                print_line(output_console(), shown(line))
            _write(rows, "table")
            if is_cut:
                print_notice("There are more rows. --limit 0 shows all.")
    return found.outcome is Outcome.FOUND


@contextmanager
def _valid_arguments() -> Iterator[None]:
    """Report an invalid expectation or end as wrong usage."""
    try:
        yield
    except PredicateError:
        raise
    except ValueError as error:
        raise typer.BadParameter(str(error)) from error


def _print_step(console: Console, step: Judgement) -> None:
    if not Verbosity.is_quiet():
        verdict = f"cannot be judged: {step.problem}" if step.problem else "holds" if step.holds else "fails"
        files = f" ({counted(step.files_read, 'file')} read)" if step.files_read else ""
        print_line(console, shown(f"Version {step.version} {verdict}{files}"))


def commit_json(commit: DeltaHistory | None) -> dict[str, Any]:
    """Return who made a commit and when, as JSON. commit: None: unknown."""
    by = {} if commit is None else made_by(commit)
    return {
        "committed_at": None if commit is None else iso_time(commit.timestamp),
        "timestamp": None if commit is None else commit.timestamp,
        "operation": None if commit is None else commit.operation,
        **{part: by.get(part) for part in _PARTS},
    }


def bisection_json(found: Bisection) -> dict[str, Any]:
    """Return a result as JSON, without its rows."""
    return {
        "outcome": str(found.outcome),
        "version": found.version,
        "first_possible": found.first_possible,
        "last_possible": found.last_possible,
        "is_first": found.is_first,
        **commit_json(found.commit),
        "files": [asdict(file) for file in found.files],
        "steps": [asdict(step) for step in found.steps],
    }


def _row_values(rows: pa.Table) -> list[dict[str, Any]]:
    return [dict(zip(rows.column_names, row, strict=True)) for row in json_rows(rows)]


def _write(rows: pa.Table, form: RowFormat) -> None:
    if rows.column_names:
        write_rows(rows, form, None)


def bisection_lines(found: Bisection) -> Iterator[str]:
    """Yield a result as text: the version, then its commit and its files."""
    text_of = found.expectation.text_of
    held, failed = found.held, found.failed
    if failed is None and held is not None:
        yield f"Nothing to find: version {held.version} holds ({text_of(held.number or 0)})."
    elif held is None and failed is not None:
        yield f"Nothing to find: version {failed.version}, the good end, already fails ({text_of(failed.number or 0)})."
        yield from _unread(found.steps, before=failed.version)
    elif held is not None and failed is not None:
        which = f"Version {failed.version}"
        if found.version is None:
            which = f"One of the versions {found.first_possible} to {found.last_possible}"
        numbers = text_of(held.number or 0), text_of(failed.number or 0)
        yield f"{which} broke it: version {held.version} has {numbers[0]}, version {failed.version} has {numbers[1]}."
        yield from _unread(found.steps, after=held.version, before=failed.version)
        yield from _commit_lines(found.commit)
        for file in found.files[:_MOST_FILES]:
            change = "added" if file.is_added else "removed"
            yield f"  {'file':10} {file.path} ({change}, {counted(file.rows, 'matching row')})"
        if len(found.files) > _MOST_FILES:
            yield f"  {'':10} and {counted(len(found.files) - _MOST_FILES, 'file')} more"
        if not found.is_first:
            yield "It is the first one if all later versions fail too. --first judges every version in order."


def _commit_lines(commit: DeltaHistory | None) -> Iterator[str]:
    if commit is not None:
        by = made_by(commit)
        parts = {"committed": time_text(commit.timestamp), "operation": commit.operation}
        for name, text in (parts | {part: by.get(part) for part in _PARTS}).items():
            if text:
                yield f"  {name:10} {text}"


def _unread(steps: Sequence[Judgement], *, before: int, after: int = -1) -> Iterator[str]:
    """Yield why versions between two others cannot be judged, for the last of them."""
    found = [step for step in steps if step.problem is not None and after < step.version < before]
    if found:
        last = max(found, key=lambda step: step.version)
        yield f"Version {last.version} cannot be judged: {last.problem}"
