"""Random tables without a change data feed, with the rows of each version: written by deltalake, and by hand.

deltalake appends, overwrites, deletes, updates, merges, compacts and adds columns. By hand, a table gets deletion
vectors: rows are deleted, updated and restored by them.
"""

from __future__ import annotations

import json
import math
import random
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

import pyarrow as pa
import pyarrow.parquet as pq

from tests.builders import Action, add, commit_info, metadata, protocol, remove, write_log
from tests.core.scan.files.deletion_vectors_builders import inline_vector

Rows = Counter[str]
Row = dict[str, Any]

_FIELDS: dict[str, tuple[pa.DataType, Any]] = {
    "id": (pa.int64(), "long"),
    "part": (pa.string(), "string"),
    "number": (pa.float64(), "double"),
    "text": (pa.string(), "string"),
    "counts": (
        pa.map_(pa.string(), pa.int64()),
        {"type": "map", "keyType": "string", "valueType": "long", "valueContainsNull": True},
    ),
    "place": (
        pa.struct([("x", pa.float32()), ("y", pa.list_(pa.int32()))]),
        {
            "type": "struct",
            "fields": [
                {"name": "x", "type": "float", "nullable": True, "metadata": {}},
                {
                    "name": "y",
                    "type": {"type": "array", "elementType": "integer", "containsNull": True},
                    "nullable": True,
                    "metadata": {},
                },
            ],
        },
    ),
}
SCHEMA = pa.schema([(name, kind) for name, (kind, _) in _FIELDS.items()])
_PARTS = ("a", "b c/d%", None)


@dataclass
class ChangingTable:
    """A table, and the rows of each of its versions."""

    path: Path
    versions: list[Rows] = field(default_factory=list)
    operations: list[str] = field(default_factory=list)


def canonical(row: Row) -> str:
    """Return a row as text. Maps are sorted; a column that is missing is null."""
    return repr([_plain(row.get(name)) for name in (*SCHEMA.names, "extra")])


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _plain(inner) for name, inner in value.items()}
    if isinstance(value, list):
        plain = [_plain(inner) for inner in value]
        return sorted(plain) if plain and isinstance(value[0], tuple) else plain
    return value


def random_row(random_: random.Random, number: int) -> Row:
    return {
        "id": number,
        "part": random_.choice(_PARTS),
        "number": random_.choice([1.5, 0.0, -0.0, math.nan, None]),
        "text": random_.choice(["x", "y", "", None]),
        "counts": random_.choice([None, [], [("k", 1)], [("k", 1), ("l", None)], [("l", None), ("k", 1)]]),
        "place": random_.choice([None, {"x": None, "y": None}, {"x": math.nan, "y": [1, None]}, {"x": 2.5, "y": []}]),
    }


def new_rows(random_: random.Random, most: int = 6) -> list[Row]:
    """Return rows whose ids often exist already."""
    return [random_row(random_, random_.randrange(25)) for _ in range(random_.randint(1, most))]


def written_by_deltalake(path: Path, seed: int, *, steps: int = 6, feed: bool = False) -> ChangingTable:
    """Return a table of deltalake. feed: with a change data feed."""
    from deltalake import DeltaTable, write_deltalake

    random_ = random.Random(seed)
    partitions = random_.choice([["part"], []])
    schema = SCHEMA
    table = ChangingTable(path)

    def data(rows: list[Row]) -> pa.Table:
        return pa.Table.from_pylist(_readable_by_feed(rows) if feed else rows, schema=schema)

    def note(operation: str) -> None:
        version = DeltaTable(str(path)).version()
        while len(table.versions) <= version:
            table.versions.append(rows_of(path, len(table.versions)))
            table.operations.append(operation)

    configuration: dict[str, str | None] = {"delta.enableChangeDataFeed": "true"} if feed else {}
    write_deltalake(str(path), data(new_rows(random_, 12)), partition_by=partitions, configuration=configuration)
    note("create")
    for _ in range(steps):
        delta = DeltaTable(str(path))
        operation = random_.choice(["append", "append", "delete", "update", "merge", "optimize", "overwrite", "widen"])
        number = random_.randrange(25)
        match operation:
            case "append":
                write_deltalake(delta, data(new_rows(random_)), mode="append")
            case "delete":
                delta.delete(random_.choice([f"id < {number}", f"id = {number}", "text = 'x'", "part is null"]))
            case "update":
                where = random_.choice([f"id > {number}", "text is null", None, "part = 'a'"])
                delta.update(updates={"text": random_.choice(["'z'", "text", "'x'"])}, predicate=where)
            case "merge":
                source = data([random_row(random_, number) for number in random_.sample(range(30), 5)])
                merged = delta.merge(source, "t.id = s.id", source_alias="s", target_alias="t")
                merged.when_matched_update({"text": "s.text"}).when_not_matched_insert_all().execute()
            case "optimize":
                delta.optimize.compact()
            case "overwrite":
                write_deltalake(delta, data(new_rows(random_)), mode="overwrite")
            case "widen" if "extra" not in schema.names:
                schema = schema.append(pa.field("extra", pa.int32()))
                rows = [{**row, "extra": random_.choice([1, None])} for row in new_rows(random_)]
                write_deltalake(delta, data(rows), mode="append", schema_mode="merge")
        note(operation)
    return table


def _readable_by_feed(rows: list[Row]) -> list[Row]:
    """Return rows with other partitions: deltalake cannot read change data in a folder whose name it encodes."""
    return [{**row, "part": row["part"] and row["part"][0]} for row in rows]


@dataclass
class _File:
    rows: list[Row]
    part: str | None
    deleted: frozenset[int] = frozenset()

    @property
    def live(self) -> list[Row]:
        return [row for index, row in enumerate(self.rows) if index not in self.deleted]


def written_by_hand(path: Path, seed: int, *, steps: int = 6) -> ChangingTable:
    """Return a table with deletion vectors."""
    return _HandWritten(path, random.Random(seed)).written(steps)


class _HandWritten:
    """Writes a table with deletion vectors, which deltalake does not write."""

    def __init__(self, path: Path, random_: random.Random) -> None:
        self.table = ChangingTable(path)
        self.random = random_
        self.files: dict[str, _File] = {}
        self.history: list[dict[str, _File]] = []
        self.count = 0
        fields = [{"name": name, "type": kind, "nullable": True, "metadata": {}} for name, (_, kind) in _FIELDS.items()]
        features = ["deletionVectors"]
        self.commits: dict[int, list[Action]] = {
            0: [
                protocol(3, 7, readerFeatures=features, writerFeatures=features),
                metadata(schemaString=json.dumps({"type": "struct", "fields": fields}), partitionColumns=["part"]),
            ]
        }

    def written(self, steps: int) -> ChangingTable:
        self.commit("create", self.new_files(new_rows(self.random, 12)))
        for _ in range(steps):
            operation = self.random.choice(
                ["append", "delete", "vectors", "vectors", "update", "copy", "optimize", "restore"]
            )
            chosen = [name for name in self.files if self.random.random() < 0.6]
            self.commit(operation, self.after(operation, chosen), data_change=operation != "optimize")
        write_log(self.table.path, self.commits)
        return self.table

    def after(self, operation: str, chosen: list[str]) -> dict[str, _File]:
        """Return the files after an operation on some of them."""
        others = {name: file for name, file in self.files.items() if name not in chosen}
        live = [row for name in chosen for row in self.files[name].live]
        match operation:
            case "append":
                return self.files | self.new_files(new_rows(self.random))
            case "delete":
                return others
            case "vectors" | "update":
                return self.marked(chosen, is_update=operation == "update")
            case "copy":
                changed = [row if self.random.random() < 0.6 else {**row, "number": 7.0} for row in live]
                return others | self.new_files(changed)
            case "optimize":
                return others | self.new_files(live)
        return self.random.choice(self.history)

    def marked(self, chosen: list[str], *, is_update: bool) -> dict[str, _File]:
        after, updated = dict(self.files), []
        for name in chosen:
            file = self.files[name]
            hit = {index for index in range(len(file.rows)) if self.random.random() < 0.4} - file.deleted
            after[name] = _File(file.rows, file.part, file.deleted | hit)
            updated += [{**file.rows[index], "text": self.random.choice(["z", "x"])} for index in sorted(hit)]
        return after | self.new_files(updated) if is_update else after

    def new_files(self, rows: list[Row]) -> dict[str, _File]:
        """Write one file for each partition of the rows."""
        found: dict[str, _File] = {}
        for part in _PARTS:
            of_part = [row for row in rows if row["part"] == part]
            if not of_part:
                continue
            name = f"part={part or 'null'}/{self.count}.parquet"
            self.count += 1
            target = self.table.path / name
            target.parent.mkdir(parents=True, exist_ok=True)
            pq.write_table(pa.Table.from_pylist(of_part, schema=SCHEMA).drop_columns(["part"]), target)
            found[name] = _File(of_part, part)
        return found

    def commit(self, operation: str, after: dict[str, _File], *, data_change: bool = True) -> None:
        actions = self.commits.setdefault(len(self.table.versions), [])
        actions.append(commit_info(operation))
        for name in {**self.files, **after}:
            if self.files.get(name) == after.get(name):
                continue
            for source, make in ((self.files, remove), (after, add)):
                if name in source:
                    values: dict[str, Any] = {"partitionValues": {"part": source[name].part}}
                    if source[name].deleted:
                        values["deletionVector"] = inline_vector(*sorted(source[name].deleted))
                    actions.append(make(quote(name), dataChange=data_change, **values))
        self.random.shuffle(actions)
        self.files = after
        self.history.append(after)
        self.table.versions.append(Counter(canonical(row) for file in after.values() for row in file.live))
        self.table.operations.append(operation)


def rows_of(path: Path, version: int) -> Rows:
    """Return the rows of a version from deltalake's list of files, read with Arrow."""
    from deltalake import DeltaTable

    actions = pa.table(DeltaTable(str(path), version=version).get_add_actions(flatten=False)).to_pylist()
    found: Rows = Counter()
    for action in actions:
        values = action.get("partition") or action.get("partition_values") or {}
        # without the folders of partitions, whose names Arrow would parse
        with (path / unquote(action["path"])).open("rb") as file:
            for row in pq.read_table(file).to_pylist():
                found[canonical({**row, **values})] += 1
    return found
