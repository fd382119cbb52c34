"""A fleet in the text format of Prometheus, for the textfile collector of its node exporter. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from deltasnap_assets.tables.fleet_totals import Row
from deltasnap_assets.texts import visible
from deltasnap_core.support import TableLevel


@dataclass(frozen=True, slots=True, kw_only=True)
class _Gauge:
    """A gauge of each table. value: from the row of the table, in base units; None: unknown, then it has no sample."""

    name: str
    help: str
    value: Callable[[Row], float | None]


def _column(name: str) -> Callable[[Row], float | None]:
    return lambda row: row[name]


def _seconds(name: str) -> Callable[[Row], float | None]:
    return lambda row: None if row[name] is None else row[name] / 1000


_GAUGES = (
    _Gauge(name="last_poll_timestamp_seconds", help="When the log was last read.", value=_seconds("polled_at_ms")),
    _Gauge(name="last_commit_timestamp_seconds", help="Time of the last commit.", value=_seconds("last_commit_ms")),
    _Gauge(
        name="usual_commit_interval_seconds",
        help="Median time between recent commits.",
        value=_seconds("usual_pause_ms"),
    ),
    _Gauge(
        name="latest_version", help="Latest version in the log when it was last read.", value=_column("latest_version")
    ),
    _Gauge(name="stored_version", help="Newest stored version.", value=_column("stored_version")),
    _Gauge(name="versions_behind", help="Versions that are not stored yet.", value=_column("versions_behind")),
    _Gauge(name="rows", help="Rows of the newest stored version.", value=_column("num_records")),
    _Gauge(name="files", help="Live files of the newest stored version.", value=_column("num_files")),
    _Gauge(
        name="size_bytes", help="Bytes of the live files of the newest stored version.", value=_column("size_in_bytes")
    ),
    _Gauge(name="growth_7d_bytes", help="Growth in the last seven days.", value=_column("growth_7d_bytes")),
    _Gauge(name="growth_30d_bytes", help="Growth in the last thirty days.", value=_column("growth_30d_bytes")),
    _Gauge(
        name="small_files_ratio", help="Ratio of small files among all live files.", value=_column("small_file_ratio")
    ),
    _Gauge(name="vacuum_bytes", help="Minimum bytes that VACUUM would free.", value=_column("vacuum_bytes")),
    _Gauge(
        name="commits_since_checkpoint",
        help="Commits since the last checkpoint.",
        value=_column("commits_since_checkpoint"),
    ),
)


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
    for gauge in _GAUGES:
        name = f"deltasnap_table_{gauge.name}"
        yield from _head(name, gauge.help)
        for row in chosen:
            if (value := gauge.value(row)) is not None:
                yield _sample(name, {"table": row["table"]}, value)


def _head(name: str, text: str) -> Iterator[str]:
    yield f"# HELP {name} {text}"
    yield f"# TYPE {name} gauge"


def _sample(name: str, labels: Mapping[str, str], value: float) -> str:
    pairs = ",".join(f'{label}="{label_value(text)}"' for label, text in labels.items())
    return f"{name}{{{pairs}}} {value!r}"
