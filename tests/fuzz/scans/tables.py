"""Real random tables, with their rows and the file of each row."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import date, datetime, time
from pathlib import Path
from random import Random
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import WriterProperties, write_deltalake

from tests.builders import Action
from tests.fuzz.scans.columns import ITEMS, KINDS, LABELS, NESTED, PARTITIONS, STRUCT, Kind, maybe, some_of, struct_of

ROW = "row"
"""The column that identifies rows. It keeps its name when other columns are renamed."""


@dataclass(kw_only=True)
class RandomTable:
    """A table on disk, and its contents.

    schema: of its data files, including the partition columns. rows: by their number, as written. files: by path as in
    the log, their rows in order. deleted: rows that a deletion vector removes. names: table names of columns, where
    they differ from the files. types: table types of columns, where they are wider than in the files. about: the
    changes to the log.
    """

    path: Path
    schema: pa.Schema
    partitions: tuple[str, ...]
    rows: dict[int, dict[str, Any]] = field(default_factory=dict)
    files: dict[str, list[int]] = field(default_factory=dict)
    deleted: set[int] = field(default_factory=set)
    names: dict[str, str] = field(default_factory=dict)
    types: dict[str, pa.DataType] = field(default_factory=dict)
    about: list[str] = field(default_factory=list)

    @property
    def log(self) -> Path:
        """The log folder."""
        return self.path / "_delta_log"

    @property
    def kinds(self) -> dict[str, Kind]:
        """The columns for predicates, as SQL, and the kind of each."""
        known = KINDS | PARTITIONS | NESTED
        names = [name for name in (*self.schema.names, *NESTED) if name in known]
        return {".".join(map(self._sql_name, name.split("."))): known[name] for name in names}

    def _sql_name(self, name: str) -> str:
        named = self.names.get(name, name)
        return named if named.isidentifier() and named.isascii() else f"`{named.replace('`', '``')}`"

    def live_rows(self) -> pa.Table:
        """Return the expected rows of a scan of the whole table."""
        values = [self._logical(row, self.schema) for number, row in self.rows.items() if number not in self.deleted]
        return pa.Table.from_pylist(values, pa.schema(self._logical_fields(self.schema)))

    def typed_schema(self) -> pa.Schema:
        """Return the schema with the types of the table and the names of its files."""
        return pa.schema([pa.field(each.name, self.types.get(each.name, each.type)) for each in self.schema])

    def file_of(self) -> dict[int, str]:
        """Return the file of each row by its number."""
        return {number: path for path, numbers in self.files.items() for number in numbers}

    def _logical_fields(self, fields: Any) -> list[pa.Field]:
        found = []
        for each in fields:
            kind = self.types.get(each.name, each.type)
            if pa.types.is_struct(each.type):
                kind = pa.struct(self._logical_fields(each.type))
            found.append(pa.field(self.names.get(each.name, each.name), kind))
        return found

    def _logical(self, row: dict[str, Any], fields: Any) -> dict[str, Any]:
        found = {}
        for each in fields:
            value = row[each.name]
            if value is not None and pa.types.is_struct(each.type):
                value = self._logical(value, each.type)
            if each.name in self.partitions and value in ("", b""):
                value = None  # PROTOCOL.md, Partition Value Serialization
            if type(value) is date and pa.types.is_timestamp(self.types.get(each.name, each.type)):
                value = datetime.combine(value, time())
            found[self.names.get(each.name, each.name)] = value
        return found


def written_table(rng: Random, path: Path) -> RandomTable:
    """Write a table of some files with `deltalake`."""
    partitions = tuple(sorted(rng.sample(sorted(PARTITIONS), rng.choice([0, 1, 1, 2, 3]))))
    columns = sorted(rng.sample(sorted(KINDS), rng.randint(4, len(KINDS))))
    table = RandomTable(path=path, schema=_schema(columns, partitions), partitions=partitions)
    truncated = rng.choice([None, 32, 5])
    for _ in range(rng.randint(3, 6)):
        rows = _random_rows(rng, table.schema, len(table.rows))
        write_deltalake(
            path, pa.Table.from_pylist(rows, table.schema), mode="append", partition_by=list(partitions) or None,
            writer_properties=WriterProperties(statistics_truncate_length=truncated),
        )  # fmt: skip
        table.rows.update({row[ROW]: row for row in rows})
    for add in logged_adds(table.log):
        numbers = pq.read_table(path / unquote(add["path"]), columns=[ROW], partitioning=None)[ROW]
        table.files[add["path"]] = numbers.to_pylist()
    return table


def logged_adds(log: Path) -> Iterator[dict[str, Any]]:
    """Yield the adds of the commits of a log, in order."""
    yield from (action["add"] for action in logged_actions(log) if "add" in action)


def logged_actions(log: Path) -> Iterator[Action]:
    """Yield the actions of the commits of a log, in order."""
    for commit in sorted(log.glob("*.json")):
        for line in commit.read_text(encoding="utf-8").splitlines():
            yield json.loads(line)


def _schema(columns: list[str], partitions: tuple[str, ...]) -> pa.Schema:
    fields = [(name, KINDS[name].type) for name in columns] + [(name, PARTITIONS[name].type) for name in partitions]
    return pa.schema([(ROW, pa.int64()), *fields, ("s", STRUCT), ("items", ITEMS), ("labels", LABELS)])


def _random_rows(rng: Random, schema: pa.Schema, first: int) -> list[dict[str, Any]]:
    """Return some rows with few distinct values. Each column has its own ratio of nulls, often none or all."""
    known = KINDS | PARTITIONS | NESTED
    values = {name: some_of(rng, known[name]) for name in (*schema.names, *NESTED) if name in known}
    nulls = {name: rng.choice([0, 0, 0.3, 1]) for name in (*values, "s")}
    rows = []
    for number in range(first, first + rng.randint(1, 8)):
        row = {name: maybe(rng, rng.choice(values[name]), nulls[name]) for name in schema.names if name in values}
        struct = maybe(rng, struct_of(rng, values, nulls), nulls["s"] * 0.9)
        others = {"items": maybe(rng, [1, None], 0.3), "labels": maybe(rng, [("a", 1)], 0.3)}
        rows.append({ROW: number, **row, "s": struct, **others})
    return rows
