"""The steps by which code makes its DataFrames, as text, without a session: `python -m tests.core.spark_steps`.

That command writes `spark_steps.txt`, with which a quick test compares. After a change, the difference shows what Spark
does differently. Other tests show that the results are right.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import pyarrow as pa

from deltasnap_core.log.non_file_actions import NonFileActions
from deltasnap_core.protocol.properties.retention import KEEP_ALL, Retention
from deltasnap_core.storage.folder_listing import FolderListing
from deltasnap_core.storage.log_store import FileStatus

EXPECTED = Path(__file__).with_suffix(".txt")
BUILDS_WITHOUT_SESSION = "SPARK_CONNECT_MODE_ENABLED"
"""With this environment variable, PySpark makes columns without a session."""
_NUMBERS = re.compile(r"(\d+L, ){9,}\d+L")


class Steps:
    """A frame of which each method returns another. The calls are numbered lines; one that runs a query has no rows."""

    def __init__(self, name: str, lines: list[str]) -> None:
        self._name, self._lines = name, lines

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        from pyspark.sql.connect.dataframe import DataFrame

        return DataFrame  # functions of PySpark check it

    def __repr__(self) -> str:
        return self._name

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return Steps(f"{self._name}.{name}", self._lines)

    def __call__(self, *arguments: Any, **named: Any) -> Steps:
        texts = [*map(_text, arguments), *(f"{name}={_text(value)}" for name, value in named.items())]
        name = f"#{len(self._lines) + 1}"
        self._lines.append(f"{name} = {self._name}({', '.join(texts)})")
        return Steps(name, self._lines)

    def __iter__(self) -> Iterator[Any]:
        return iter(())


def _text(value: Any) -> str:
    if isinstance(value, pa.Table):
        value = value.to_pylist()
    text = value if isinstance(value, str) else repr(value).removeprefix("Column")
    return _NUMBERS.sub("...", " ".join(text.split()))


def steps() -> dict[str, list[str]]:
    """Return the steps of each query, by name. Needs BUILDS_WITHOUT_SESSION."""
    return {name: _steps_of(query) for name, query in _QUERIES.items()}


def _steps_of(query: Callable[[Any], Any]) -> list[str]:
    lines: list[str] = []
    with suppress(ValueError):  # a query that needs one row has none
        found = query(Steps("rows", lines))
        lines.append(f"returns {found!r}")
    return lines


def _file_breakdown(rows: Any) -> Any:
    from deltasnap_core.replay.spark import file_breakdowns

    with patch.object(file_breakdowns, "_MAX_GROUPS", -1):
        return file_breakdowns.file_breakdown(rows, Retention.after(5))


def _delta_between(rows: Any) -> Any:
    from deltasnap_core.replay.spark.state_deltas import delta_between

    return delta_between(rows, rows.earlier, rows.newer, NonFileActions(), before=KEEP_ALL, after=Retention.after(5))


def _deltas_of_range(rows: Any) -> Any:
    from deltasnap_core.replay.spark.state_deltas import changes_of_versions, deltas_of_range

    retentions = {1: KEEP_ALL, 2: Retention.after(5), 3: Retention.after(9)}
    changes = changes_of_versions(rows.commits)
    return deltas_of_range(rows, changes, {2: NonFileActions()}, retentions, broadcast=True, with_groups=True)


def _file_changes(rows: Any) -> Any:
    from deltasnap_core.scan.file_changes import FileChanges

    there = FileChanges(_table(rows), rows.before, rows.after, from_version=1, to_version=2, commits=())
    back = FileChanges(
        _table(rows), rows.after, rows.before, from_version=2, to_version=1, commits=(), removes=rows.removes
    )
    return there.removed, back.summary


def _file_problems(rows: Any) -> Any:
    from deltasnap_core.scan.tables.file_problems import file_problems

    return file_problems(_table(rows), rows, _LISTING)


def _vacuum_candidates(rows: Any) -> Any:
    from deltasnap_core.scan.tables.vacuum_candidates import ReferencedFiles, vacuum_candidates

    named = ReferencedFiles(files=[rows], tombstones=[], change_data=[("c%20d", 8)])
    return [
        vacuum_candidates(_table(rows), named, retention_ms=3, now_ms=10, listing=each) for each in (None, _LISTING)
    ]


def _plain_rows(rows: Any) -> Any:
    from deltasnap_core.store.rows.plain_parquet_rows import all_files_by_version, tombstones_by_version

    retentions = {4: KEEP_ALL, 5: Retention.after(7)}
    return all_files_by_version(rows), tombstones_by_version(rows, retentions)


def _versions_of_plain_rows(rows: Any) -> Any:
    from deltasnap_core.store.rows.plain_parquet_rows import rows_by_version

    changes = rows.changes
    return [rows_by_version(state, each, 4, 6) for state in (rows, None) for each in (changes, None)]


def _keys_and_measures(rows: Any) -> Any:
    from pyspark.sql import functions as F

    from deltasnap_core.replay.spark.reading.action_reader import _lines_of, with_keys
    from deltasnap_core.replay.spark.reading.file_action_layout import measured

    lines = _lines_of(rows, F.col("file"), F.col("start"))
    return lines, measured(with_keys(rows, "s3://lake/T/_delta_log", "other"), "more")


def _lives(rows: Any) -> Any:
    from deltasnap_core.scan.tables.metadata_tables import FileHistory, _lives

    return _lives(FileHistory(files=rows, events=rows.events), "key(path)")


def _wanted_live_files(rows: Any) -> Any:
    from deltasnap_core.scan.changes.live_files import _with_keys

    return _with_keys(rows, rows.wanted, "s3://lake/T/_delta_log")


def _last_removal(rows: Any) -> Any:
    from deltasnap_core.scan.tables.vacuum_summary import _last_removal

    return _last_removal(rows, 7)


def _groups_to_vacuum(rows: Any) -> Any:
    from deltasnap_core.scan.tables.vacuum_summary import vacuum_summary

    return vacuum_summary(rows, None, retention_ms=3, now_ms=10)


def _optimize_candidates(rows: Any) -> Any:
    from deltasnap_core.scan.tables.optimize_candidates import _candidates

    return _candidates(_table(rows), rows)


def _rows_of_vectors(rows: Any) -> Any:
    from deltasnap_core.scan import row_joins

    found: Any = SimpleNamespace(files=([7, 8], [9]), table=_table(rows), _listed_rows=list)
    with patch.object(row_joins, "_MAX_BROADCAST_ROWS", 3):
        few = row_joins.RowJoins.of_listed(found, rows, "left_anti")
    with patch.object(row_joins, "_MAX_BROADCAST_ROWS", 2):
        return few, row_joins.RowJoins.of_listed(found, rows, "left_anti")


def _table(rows: Any) -> Any:
    metadata = SimpleNamespace(partition_columns=(), configuration={})
    columns = SimpleNamespace(partition=())
    return SimpleNamespace(table_path="s3://lake/T", spark=rows.spark, metadata=metadata, columns=columns)


_LISTED = FileStatus(path="s3://lake/T/caf\u00e9", size=3, modification_time=4)
_LISTING = FolderListing(roots=("s3://lake/T", "s3://lake/other"), files=(_LISTED,))
_QUERIES: dict[str, Callable[[Any], Any]] = {
    "file breakdown": _file_breakdown,
    "delta between": _delta_between,
    "deltas of a range": _deltas_of_range,
    "file changes": _file_changes,
    "file problems": _file_problems,
    "vacuum candidates": _vacuum_candidates,
    "rows of plain Parquet": _plain_rows,
    "versions of plain rows": _versions_of_plain_rows,
    "keys and measures": _keys_and_measures,
    "lives of files": _lives,
    "wanted live files": _wanted_live_files,
    "last removal": _last_removal,
    "groups to vacuum": _groups_to_vacuum,
    "optimize candidates": _optimize_candidates,
    "rows of deletion vectors": _rows_of_vectors,
}


def as_text() -> str:
    """Return the steps of all queries."""
    return "\n".join(f"{name}\n" + "".join(f"  {line}\n" for line in lines) for name, lines in steps().items())


if __name__ == "__main__":
    os.environ[BUILDS_WITHOUT_SESSION] = "1"
    EXPECTED.write_text(as_text(), encoding="utf-8")
