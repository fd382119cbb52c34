"""Rewrites the log of a real table: mapped columns, deletion vectors, other statistics, checkpoints."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from random import Random
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq

from tests.builders import Action, write_log
from tests.checkpoint_files import CheckpointStyle, put_parsed_statistics, write_checkpoint
from tests.core.scan.files.deletion_vectors_builders import inline_vector
from tests.fuzz.scans.statistics import parsed_type, parsed_values, random_statistics
from tests.fuzz.scans.tables import ROW, RandomTable, logged_actions

_READER_FEATURES = ["columnMapping", "deletionVectors", "timestampNtz", "typeWidening"]
_WIDER: dict[str, list[tuple[str, pa.DataType]]] = {
    "tiny": [("short", pa.int16()), ("long", pa.int64()), ("decimal(12,2)", pa.decimal128(12, 2))],
    "small": [("integer", pa.int32()), ("double", pa.float64())],
    "n": [("long", pa.int64()), ("double", pa.float64()), ("decimal(20,1)", pa.decimal128(20, 1))],
    "f": [("double", pa.float64())],
    "price": [("decimal(12,2)", pa.decimal128(12, 2)), ("decimal(24,4)", pa.decimal128(24, 4))],
    "fee": [("decimal(20,2)", pa.decimal128(20, 2)), ("decimal(38,2)", pa.decimal128(38, 2))],
    "on_day": [("timestamp_ntz", pa.timestamp("us"))],
}
_ID, _PHYSICAL = "delta.columnMapping.id", "delta.columnMapping.physicalName"


def rewrite(rng: Random, table: RandomTable) -> None:
    """Rewrite the log with the same meaning, except for the rows that it then deletes."""
    actions = list(logged_actions(table.log))
    metadata = next(action["metaData"] for action in actions if "metaData" in action)
    adds = [action["add"] for action in actions if "add" in action]
    if rng.random() < 0.5:
        _widen(rng, table, metadata)
    if rng.random() < 0.4:
        for add in rng.sample(adds, len(adds) // 2):
            _leave_out_a_column(rng, table, add)
    mode = rng.choice(["none", "none", "name", "id"])
    if mode != "none":
        _map_columns(rng, table, metadata, mode)
        if mode == "id":
            for add in adds:
                _put_ids(table, add, metadata)
    for add in adds:
        if rng.random() < 0.7:
            _encode_otherwise(rng, table, add)
    has_parsed = rng.random() < 0.5
    for add in adds:
        _rewrite_add(rng, table, add, as_parsed=has_parsed)
    features = {"readerFeatures": _READER_FEATURES, "writerFeatures": _READER_FEATURES}
    first = [{"protocol": {"minReaderVersion": 3, "minWriterVersion": 7, **features}}, {"metaData": metadata}]
    _write(rng, table, first, [{"add": add} for add in adds], has_parsed=has_parsed)


def _rewrite_add(rng: Random, table: RandomTable, add: Action, *, as_parsed: bool) -> None:
    numbers = table.files[add["path"]]
    has_vector = rng.random() < 0.3
    if has_vector:
        places = sorted(rng.sample(range(len(numbers)), rng.randint(1, len(numbers))))
        add["deletionVector"] = inline_vector(*places)
        table.deleted |= {numbers[place] for place in places}
        table.about.append("deletion vector")
    if rng.random() < 0.7:
        add["stats"], done = random_statistics(rng, json.loads(add["stats"]), has_vector=has_vector)
        table.about += done


def _widen(rng: Random, table: RandomTable, metadata: Action) -> None:
    """Give the table wider types than its files."""
    schema = json.loads(metadata["schemaString"])
    for described in schema["fields"]:
        name, old = described["name"], described["type"]
        if name in _WIDER and rng.random() < 0.7:
            described["type"], table.types[name] = rng.choice(_WIDER[name])
            change = {"fromType": old, "toType": described["type"], "tableVersion": 1}
            described["metadata"] = {"delta.typeChanges": [change]}
            table.about.append(f"{name} widened to {described['type']}")
        if name == "name" and rng.random() < 0.5:
            described["metadata"] = {"__CHAR_VARCHAR_TYPE_STRING": "varchar(100)"}
    metadata["schemaString"] = json.dumps(schema)


def _leave_out_a_column(rng: Random, table: RandomTable, add: Action) -> None:
    """Rewrite a data file as it was before a column was added to the table."""
    path = table.path / unquote(add["path"])
    rows = pq.read_table(path, partitioning=None)
    name = rng.choice([name for name in rows.column_names if name != ROW])
    pq.write_table(rows.drop_columns([name]), path)
    for number in table.files[add["path"]]:
        table.rows[number] = {**table.rows[number], name: None}
    statistics = json.loads(add["stats"])
    for part in ("minValues", "maxValues", "nullCount"):
        statistics.get(part, {}).pop(name, None)
    add["stats"], add["size"] = json.dumps(statistics), path.stat().st_size
    table.about.append("a column added later")


def _map_columns(rng: Random, table: RandomTable, metadata: Action, mode: str) -> None:
    """Give columns other names in the table than in its files; some get the file name of another column."""
    names = [name for name in (*table.schema.names, "a", "b", "d", "t") if name not in (ROW, "x", "at")]
    style = rng.choice(["{}", "{} of é", "{}.x", "The {}"])
    table.names = {name: style.format(name) for name in names}
    schema = json.loads(metadata["schemaString"])
    numbers = iter(range(1, 1000))

    def mapped(fields: list[Action]) -> None:
        for each in fields:
            each["metadata"] = {**each["metadata"], _ID: next(numbers), _PHYSICAL: each["name"]}
            each["name"] = table.names.get(each["name"], each["name"])
            if isinstance(each["type"], dict) and each["type"]["type"] == "struct":
                mapped(each["type"]["fields"])

    mapped(schema["fields"])
    metadata["schemaString"] = json.dumps(schema)
    metadata["partitionColumns"] = [table.names.get(name, name) for name in metadata["partitionColumns"]]
    metadata["configuration"] = {**metadata["configuration"], "delta.columnMapping.mode": mode}
    table.about.append(f"mapped by {mode}")


def _put_ids(table: RandomTable, add: Action, metadata: Action) -> None:
    """Rewrite a data file with the column ids of the schema."""
    path = table.path / unquote(add["path"])
    rows = pq.read_table(path, partitioning=None)

    def with_ids(fields: Any, described: list[Action]) -> list[pa.Field]:
        by_name = {each["metadata"][_PHYSICAL]: each for each in described}
        found = []
        for each in fields:
            field = by_name[each.name]
            kind = each.type
            if pa.types.is_struct(kind):
                kind = pa.struct(with_ids(kind, field["type"]["fields"]))
            found.append(pa.field(each.name, kind, metadata={"PARQUET:field_id": str(field["metadata"][_ID])}))
        return found

    schema = pa.schema(with_ids(rows.schema, json.loads(metadata["schemaString"])["fields"]))
    pq.write_table(rows.cast(schema), path)
    add["size"] = path.stat().st_size


def _encode_otherwise(rng: Random, table: RandomTable, add: Action) -> None:
    """Rewrite a data file with bloom filters, and other dictionaries, pages, row groups and representations."""
    path = table.path / unquote(add["path"])
    rows = pq.read_table(path, partitioning=None)
    leaves = [leaf for leaf in pq.ParquetFile(path).schema if leaf.physical_type != "BOOLEAN"]
    filtered = [leaf.path for leaf in leaves if not leaf.max_repetition_level and rng.random() < 0.5]
    options: dict[str, Any] = {
        "use_dictionary": rng.random() < 0.5,
        "bloom_filter_options": {name: {"ndv": 10, "fpp": 0.001} for name in filtered} or None,
        "write_page_index": rng.random() < 0.5,
        "data_page_size": rng.choice([1, 1 << 20]),
        "row_group_size": rng.choice([1, 2, 1 << 20]),
        "store_decimal_as_integer": rng.random() < 0.5,
    }
    for unit in rng.sample(["ms", "us"], 2):
        try:
            pq.write_table(rows, path, coerce_timestamps=unit, **options)
        except pa.ArrowInvalid:  # the times have a finer unit
            continue
        table.about.append(f"encoded otherwise, {unit}")
        break
    add["size"] = path.stat().st_size


def _write(rng: Random, table: RandomTable, first: list[Action], adds: list[Action], *, has_parsed: bool) -> None:
    shutil.rmtree(table.log)
    half = rng.randint(0, len(adds))
    write_log(table.path, {0: [*first, *adds[:half]], 1: [*adds[half:]]})
    if not has_parsed and rng.random() < 0.5:
        return
    version = rng.choice([0, 1])
    actions = [*first, *(adds if version else adds[:half])]
    style: CheckpointStyle = "classic" if has_parsed else rng.choice(["classic", "multipart", "v2-parquet-sidecars"])
    (file, *_) = write_checkpoint(table.log, version, style, actions)
    table.about.append(f"checkpoint {style} of {version}")
    if has_parsed:
        _with_parsed(rng, file, table.typed_schema(), actions)
        table.about.append("stats_parsed")


def _with_parsed(rng: Random, file: Path, schema: pa.Schema, actions: list[Action]) -> None:
    """Write the statistics of a checkpoint's adds as a struct, and mostly not as JSON."""
    values = [parsed_values(action["add"].get("stats"), schema) if "add" in action else None for action in actions]
    put_parsed_statistics(file, pa.array(values, parsed_type(schema)), keep_json=rng.random() < 0.3)
