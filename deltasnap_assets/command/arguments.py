"""Values of the command line that several commands take."""

from __future__ import annotations

import re
from datetime import datetime

import typer

_NAME = re.compile(r"(?:`[^`]*`|[^,`])+")


def milliseconds(text: str) -> int:
    """Return a time as ms since the epoch. Errors: typer.BadParameter for `--timestamp`."""
    try:
        return int(datetime.fromisoformat(text).timestamp() * 1000)
    except (ValueError, OverflowError, OSError) as error:
        expected = "Expected a time such as 2026-03-02T10:00:00Z"
        raise typer.BadParameter(f"{expected}, found {text!r}.", param_hint="--timestamp") from error


def column_names(text: str) -> tuple[str, ...]:
    """Return the names in a text, separated by commas. A name with a comma is in backticks.

    Errors: typer.BadParameter for `--columns`.
    """
    names = tuple(name.strip() for name in _NAME.findall(text))
    if not names or not all(names):
        raise typer.BadParameter(f"Expected names of columns such as id,day, found {text!r}.", param_hint="--columns")
    return names
