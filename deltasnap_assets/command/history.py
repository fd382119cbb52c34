"""`deltasnap history`: who committed what and when, newest first. Needs no Spark."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from rich.table import Table

from deltasnap_assets.command.terminal import shown
from deltasnap_core import DeltaHistory, TableLog


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
    table = Table("version", "committed (UTC)", "operation", "by", "read", box=None, header_style="dim", expand=True)
    table.add_column("metrics", no_wrap=True, ratio=1)
    for commit in history:
        metrics = commit.operation_metrics or {}
        counts = {name: value for name, value in sorted(metrics.items()) if "time" not in name.lower()}
        told = ", ".join(f"{name}={value}" for name, value in counts.items() if value not in (None, "0", ""))
        table.add_row(
            str(commit.version),
            iso_time(commit.timestamp).removesuffix("+00:00").replace("T", " "),
            shown(commit.operation or "unknown"),
            shown(commit.user_name or commit.user_id or commit.engine_info or ""),
            "" if commit.read_version is None else str(commit.read_version),
            shown(told),
        )
    return table


def iso_time(timestamp_ms: int) -> str:
    """Return a time as ISO 8601 in UTC; the bare number where it is beyond any calendar."""
    try:
        return datetime.fromtimestamp(timestamp_ms / 1000, UTC).isoformat(timespec="seconds")
    except (OverflowError, ValueError, OSError):
        return f"{timestamp_ms} ms"
