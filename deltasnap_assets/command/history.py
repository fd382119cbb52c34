"""`deltasnap history`: who committed what and when, newest first. Needs no Spark."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from rich.table import Table

from deltasnap_assets.command.terminal import shown
from deltasnap_core import DeltaHistory, TableLog

_LEAST_WIDTH = 30


def read_history(path: str, storage_options: Mapping[str, Any], limit: int | None) -> list[DeltaHistory]:
    """Return the last commits of a table, newest first. Errors: those of finding the table and reading its commits."""
    return TableLog.for_path(path, storage_options).history.get_history(limit=limit)


def history_json(history: Sequence[DeltaHistory]) -> list[dict[str, Any]]:
    """Return commits as JSON: `version`, `committedAt` (ISO 8601, UTC), then what each commit says of itself."""
    return [
        {"version": commit.version, "committedAt": iso_time(commit.timestamp), **commit.to_json()} for commit in history
    ]


def history_table(history: Sequence[DeltaHistory]) -> Table:
    """Return commits as a table for the terminal."""
    table = Table("version", "committed (UTC)", "by", box=None, header_style="dim", expand=True)
    # It wraps, and has most of the width: a name of a metric that is cut off tells nothing.
    table.add_column("operation and metrics", ratio=1, min_width=_LEAST_WIDTH, overflow="fold")
    for commit in history:
        told = ", ".join(f"{name}={value}" for name, value in _counts(commit.operation_metrics or {}))
        operation = commit.operation or "unknown"
        table.add_row(
            str(commit.version),
            iso_time(commit.timestamp).removesuffix("+00:00").replace("T", " "),
            shown(commit.user_name or commit.user_id or commit.engine_info or ""),
            shown(f"{operation}: {told}" if told else operation),
        )
    return table


def _counts(metrics: Mapping[str, str | None]) -> Iterator[tuple[str, str]]:
    """The metrics that count something. Times, settings and objects are left out: `--json` has them."""
    for name, value in sorted(metrics.items()):
        is_count = value is not None and value.isdecimal() and int(value) > 0
        if is_count and "time" not in name.lower():
            yield name, str(value)


def iso_time(timestamp_ms: int) -> str:
    """Return a time as ISO 8601 in UTC; the bare number where it is beyond any calendar."""
    try:
        return datetime.fromtimestamp(timestamp_ms / 1000, UTC).isoformat(timespec="seconds")
    except (OverflowError, ValueError, OSError):
        return f"{timestamp_ms} ms"
