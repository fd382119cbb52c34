"""`deltasnap bisect`: searches the version that broke an expectation, and shows it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from functools import partial
from typing import Any

import pyarrow as pa
import typer
from rich.console import Console

from deltasnap_assets.bisection_texts import PARTS, bisection_lines
from deltasnap_assets.command.output import OutputFormat, print_json
from deltasnap_assets.command.rows.row_options import DEFAULT_LIMIT, RowFormat
from deltasnap_assets.command.rows.row_output import cut_rows, valid_condition, write_rows
from deltasnap_assets.command.table_on_spark import Place, spark_aside, versions_of
from deltasnap_assets.command.terminal import Verbosity, output_console, print_line, print_notice, shown
from deltasnap_assets.command.views.condition_view import explaining
from deltasnap_assets.exact_values import json_rows
from deltasnap_assets.provenance import made_by
from deltasnap_assets.quantities import counted, iso_time
from deltasnap_core import DeltaHistory
from deltasnap_core.errors import PredicateError
from deltasnap_core.support import Bisection, Judgement, Outcome


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
        **{part: by.get(part) for part in PARTS},
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
