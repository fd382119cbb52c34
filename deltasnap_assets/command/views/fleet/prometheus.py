"""A fleet in the text format of Prometheus, for the textfile collector of its node exporter. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from deltasnap_assets.tables.fleet_totals import Row
from deltasnap_assets.texts import visible
from deltasnap_core.support import TableLevel

_GAUGES = (
    ("last_poll_timestamp_seconds", "When the log was last read.", "polled_at_ms"),
    ("last_commit_timestamp_seconds", "Time of the last commit.", "last_commit_ms"),
    ("usual_commit_interval_seconds", "Median time between recent commits.", "usual_pause_ms"),
    ("latest_version", "Latest version in the log when it was last read.", "latest_version"),
    ("stored_version", "Newest stored version.", "stored_version"),
    ("versions_behind", "Versions that are not stored yet.", "versions_behind"),
    ("rows", "Rows of the newest stored version.", "num_records"),
    ("files", "Live files of the newest stored version.", "num_files"),
    ("size_bytes", "Bytes of the live files of the newest stored version.", "size_in_bytes"),
    ("growth_7d_bytes", "Growth in the last seven days.", "growth_7d_bytes"),
    ("growth_30d_bytes", "Growth in the last thirty days.", "growth_30d_bytes"),
    ("small_files_ratio", "Ratio of small files among all live files.", "small_file_ratio"),
    ("vacuum_bytes", "Minimum bytes that VACUUM would free.", "vacuum_bytes"),
    ("time_travel_bytes", "Bytes of files that only earlier versions read.", "time_travel_bytes"),
    ("commits_since_checkpoint", "Commits since the last checkpoint.", "commits_since_checkpoint"),
)
"""The gauges of each table: name, help, and column of the row. Times and pauses become seconds."""


def prometheus_text(rows: Sequence[Row], chosen: Sequence[Row] | None = None) -> str:
    """Return the number of tables by condition, and gauges with the label `table`.

    The condition is one gauge for each value, 1 for the current one. chosen: the tables with gauges; None: all.
    """
    return "".join(f"{line}\n" for line in _lines(rows, rows if chosen is None else chosen))


def label_value(text: str) -> str:
    r"""Return a text as the value of a label: control characters as text, then `\`, `"` and line feeds escaped."""
    return visible(text).replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _lines(rows: Sequence[Row], chosen: Sequence[Row]) -> Iterator[str]:
    yield from _head("deltasnap_tables", "Followed tables by condition.")
    for level in TableLevel:
        count = sum(row["condition"] == level for row in rows)
        yield _sample("deltasnap_tables", {"condition": level.value}, count)
    name = "deltasnap_table_condition"
    yield from _head(name, "1 for the current condition, otherwise 0.")
    for row in chosen:
        for level in TableLevel:
            labels = {"table": row["table"], "condition": level.value}
            yield _sample(name, labels, int(row["condition"] == level))
    for gauge, text, column in _GAUGES:
        name, unit = f"deltasnap_table_{gauge}", 1000 if column.endswith("_ms") else 1
        yield from _head(name, text)
        for row in chosen:
            if (value := row[column]) is not None:
                yield _sample(name, {"table": row["table"]}, value if unit == 1 else value / unit)


def _head(name: str, text: str) -> Iterator[str]:
    yield f"# HELP {name} {text}"
    yield f"# TYPE {name} gauge"


def _sample(name: str, labels: Mapping[str, str], value: float) -> str:
    pairs = ",".join(f'{label}="{label_value(text)}"' for label, text in labels.items())
    return f"{name}{{{pairs}}} {value!r}"
