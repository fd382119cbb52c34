"""Mutations of the Parquet files of a checkpoint, and of the files that a checkpoint names."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from deltasnap_core.protocol.log_files import file_names
from tests.fuzz.made_tables import EXPIRED, MadeTable
from tests.fuzz.meanings import Meaning, Mutation, actions_of, made, meaning_of_loss, pick, rewrite

PARQUET = re.compile(r".*\.parquet")


def flip_in_pages(table: MadeTable, rng: Random) -> Mutation | None:
    """Flip bits at the end of a column's pages. The footer stays whole; the pages may have checksums."""
    file, rows = _readable(table, rng)
    if file is None or rows is None:
        return None
    with_checksums = rng.random() < 0.7
    compression = rng.choice(("none", "snappy", "zstd"))
    _write(file, rows, compression=compression, write_page_checksum=with_checksums)
    group, content = pq.read_metadata(file).row_group(0), bytearray(file.read_bytes())
    chunk = group.column(rng.randrange(group.num_columns))
    start = chunk.data_page_offset if chunk.dictionary_page_offset is None else chunk.dictionary_page_offset
    end = start + chunk.total_compressed_size
    for place in {end - 1 - rng.randrange(4) for _ in range(rng.choice((1, 1, 3)))}:
        content[place] ^= 1 << rng.randrange(8)
    rewrite(file, bytes(content))
    text = f"pages of {chunk.path_in_schema} of {file.name} flipped, {compression}, checksums: {with_checksums}"
    return made(meaning_of_loss(table, file) if with_checksums else Meaning.ANY, text, file)


def retype_column(table: MadeTable, rng: Random) -> Mutation | None:
    """Change the type or the name of a checkpoint's field, or remove its values."""
    file, rows = _readable(table, rng)
    structs = [] if rows is None else [column for column in rows.schema if pa.types.is_struct(column.type)]
    if file is None or rows is None or not structs:
        return None
    column = rng.choice(structs)
    index = rng.randrange(column.type.num_fields)
    changed, text = _retyped(rows, column.name, index, rng)
    if changed is None:
        return None
    _write(file, changed)
    return made(Meaning.ANY, f"{column.name}.{column.type.field(index).name} of {file.name} {text}", file)


_KINDS: dict[str, pa.DataType] = {
    "is text": pa.string(),
    "is large text": pa.large_string(),
    "is binary": pa.binary(),
    "is a dictionary": pa.dictionary(pa.int32(), pa.string()),
    "is int32": pa.int32(),
    "is uint64": pa.uint64(),
    "is double": pa.float64(),
    "is decimal": pa.decimal128(38, 2),
    "is int8": pa.int8(),
    "is boolean": pa.bool_(),
    "is timestamp": pa.timestamp("ms"),
    "is date": pa.date32(),
    "is a list": pa.list_(pa.string()),
    "is a list of structs": pa.list_(pa.struct([("key", pa.string()), ("value", pa.string())])),
    "is a map of numbers": pa.map_(pa.string(), pa.int64()),
    "is a struct": pa.struct([("x", pa.string())]),
}


def _retyped(rows: pa.Table, name: str, index: int, rng: Random) -> tuple[pa.Table | None, str]:
    column = rows.column(name).combine_chunks()
    arrays = column.flatten()
    fields = [column.type.field(number) for number in range(column.type.num_fields)]
    field, array = fields[index], arrays[index]
    how = rng.choice(("renamed", "in capitals", "is twice there", "is null", "is left out", *_KINDS))
    if how == "is left out":
        if len(fields) == 1:
            return None, how
        del fields[index], arrays[index]
    elif how == "renamed":
        fields[index] = field.with_name("somethingElse")
    elif how == "in capitals":
        fields[index] = field.with_name(field.name.upper())
    elif how == "is twice there":
        fields.append(field.with_name(rng.choice((field.name.upper(), field.name.capitalize()))))
        arrays.append(array)
    elif how == "is null":
        arrays[index] = pa.nulls(len(array), field.type)
    else:
        kind = _KINDS[how]
        try:
            arrays[index] = array.cast(kind)
        except (pa.ArrowException, NotImplementedError):
            arrays[index] = pa.nulls(len(array), kind)
        fields[index] = field.with_type(kind)
    return _with_struct(rows, name, fields, arrays), how


def reshape_columns(table: MadeTable, rng: Random) -> Mutation | None:
    """Rename, drop or duplicate a column of a checkpoint, or make it something other than a struct."""
    file, rows = _readable(table, rng)
    if file is None or rows is None or rows.num_columns < 2:
        return None
    name = rng.choice(rows.column_names)
    index = rows.column_names.index(name)
    match how := rng.choice(("left out", "in capitals", "twice", "text", "a list", "null")):
        case "left out":
            changed = rows.remove_column(index)
        case "in capitals":
            changed = rows.rename_columns(
                [column.upper() if column == name else column for column in rows.schema.names]
            )
        case "twice":
            changed = rows.append_column(rng.choice((name.upper(), name.capitalize())), rows.column(index))
        case "text":
            changed = rows.set_column(index, name, pa.array(["x"] * rows.num_rows, pa.string()))
        case "a list":
            changed = rows.set_column(
                index, name, pa.array([[]] * rows.num_rows, pa.list_(rows.schema.field(index).type))
            )
        case _:
            changed = rows.set_column(index, name, pa.nulls(rows.num_rows, rows.schema.field(index).type))
    _write(file, changed)
    return made(Meaning.ANY, f"column {name} of {file.name}: {how}", file)


_EXTREMES = (-(2**63), -(2**63) + 1, -(2**31) - 1, -1, 0, 2**31, 2**53 + 1, 2**62, 2**63 - 2, 2**63 - 1, None)


def set_extreme(table: MadeTable, rng: Random) -> Mutation | None:
    """Replace all values of one field of a checkpoint by an extreme number or null."""
    file, rows = _readable(table, rng)
    if file is None or rows is None:
        return None
    places = [
        (column.name, number)
        for column in rows.schema
        if pa.types.is_struct(column.type)
        for number in range(column.type.num_fields)
        if pa.types.is_int64(column.type.field(number).type)
    ]
    if not places:
        return None
    name, number = rng.choice(places)
    column, value = rows.column(name).combine_chunks(), rng.choice(_EXTREMES)
    arrays, fields = column.flatten(), [column.type.field(at) for at in range(column.type.num_fields)]
    arrays[number] = pa.array([value] * len(column), pa.int64())
    _write(file, _with_struct(rows, name, fields, arrays))
    return made(Meaning.ANY, f"{name}.{fields[number].name} of {file.name} is {value}", file)


def put_two_in_a_row(table: MadeTable, rng: Random) -> Mutation | None:
    """Add a second action to some rows of a checkpoint or a sidecar, and possibly remove all actions of others."""
    file, rows = _readable(table, rng)
    if file is None or rows is None or not all(pa.types.is_struct(column.type) for column in rows.schema):
        return None
    actions = rows.to_pylist(maps_as_pydicts="lossy")
    kinds = [kind for kind in rows.column_names if any(row[kind] is not None for row in actions)]
    extra = {kind: next(row[kind] for row in actions if row[kind] is not None) for kind in kinds}
    extra |= (
        {"remove": {"path": "gone.parquet", "deletionTimestamp": EXPIRED + 1}} if "remove" in rows.column_names else {}
    )
    kind = rng.choice(sorted(extra)) if extra else None
    others = [row for row in actions if kind is not None and row[kind] is None and any(row.values())]
    if kind is None or not others:
        return None
    for row in rng.sample(others, rng.randint(1, len(others))):
        row[kind] = extra[kind]
    blanks: list[Any] = [dict.fromkeys(rows.column_names)] * rng.choice((0, 0, len(actions)))
    try:
        changed = pa.Table.from_pylist(actions + blanks, schema=rows.schema)
    except pa.ArrowInvalid:  # an earlier mutation gave a column another type
        return None
    _write(file, changed, write_statistics=rng.random() < 0.8)
    # Reading the rows detects a second file action. Other actions of a sidecar have no meaning.
    return made(Meaning.ANY, f"{kind} in rows of other actions of {file.name}, {len(blanks)} blank rows", file)


def _with_struct(rows: pa.Table, name: str, fields: list[pa.Field], arrays: list[pa.Array]) -> pa.Table:
    column = rows.column(name).combine_chunks()
    rebuilt = pa.StructArray.from_arrays(arrays, fields=fields, mask=column.is_null())
    return rows.set_column(rows.schema.get_field_index(name), name, rebuilt)


# Files that a checkpoint names.

_ELSEWHERE: tuple[Callable[[Path], str], ...] = (
    lambda file: str(file),
    lambda file: file.as_uri(),
    lambda file: f"file:{file}",
    lambda file: f"FILE://localhost{file}",
    lambda file: f"local://{file}",
    lambda file: f"../../../{file.name}",
    lambda file: f"%2e%2e/%2E%2e/..%2f{file.name}",
    lambda file: f"x/../../../../{file.name}",
    lambda file: f"..\\..\\..\\{file.name}",
    lambda file: f"simplecache::{file.as_uri()}",
    lambda file: f"filecache::file:{file}",
    lambda file: f"zip://x::{file.as_uri()}",
    lambda _: "http://127.0.0.1:9/x.parquet",
    lambda _: "https://user:secret@127.0.0.1:9/x.parquet?sig=secret",
    lambda _: "s3://nobody/x.parquet",
    lambda _: "memory://x.parquet",
    lambda _: "/dev/zero",
    lambda _: "/proc/self/environ",
    lambda _: "/",
    lambda _: ".",
    lambda _: "",
    lambda _: "x\0y",
    lambda _: "%00",
    lambda _: "%ff%fe",
    lambda _: "~/x.parquet",
    lambda _: "x" * 5000,
    lambda _: "\x1b[31m`x`[bold]",
)


def lead_sidecar_elsewhere(table: MadeTable, rng: Random) -> Mutation | None:
    """Make a checkpoint name a sidecar outside the table (where a valid copy is), or an invalid sidecar."""
    found = _with_sidecars(table)
    if not found:
        return None
    file = rng.choice(found)
    sidecar = rng.choice(sorted((table.log / file_names.SIDECAR_FOLDER).glob("*")))
    outside = table.folder.parent / "outside.parquet"
    if sidecar.is_file():
        shutil.copy2(sidecar, outside)
    path = rng.choice(_ELSEWHERE)(outside)
    _name_sidecar(file, path)
    return made(meaning_of_loss(table, file), f"{file.name} names the sidecar {path[:80]!r}", file)


def name_sidecar_in_full(table: MadeTable, rng: Random) -> Mutation | None:
    """Name the sidecars by their absolute paths, which is allowed: they are inside the table."""
    found = _with_sidecars(table)
    if not found:
        return None
    file, folder = rng.choice(found), (table.log / file_names.SIDECAR_FOLDER).as_uri()
    _name_sidecar(file, lambda path: path if ":" in path or path.startswith("/") else f"{folder}/{path}")
    return made(Meaning.SAME, f"{file.name} names its sidecars in full", file)


def _with_sidecars(table: MadeTable) -> list[Path]:
    styles = {version: style for version, style in table.checkpoints.items() if style.endswith("sidecars")}
    return [
        file
        for version in styles
        for file in sorted(table.log.glob(f"{version:020d}.checkpoint.*"))
        if file.is_file() and (table.log / file_names.SIDECAR_FOLDER).is_dir() and _names(file)
    ]


def _names(file: Path) -> bool:
    if file.suffix == ".json":
        return any("sidecar" in action for action in actions_of(file))
    try:
        column = pq.read_table(file).column("sidecar")
        return bool(column.null_count < len(column))
    except (pa.ArrowException, OSError, KeyError):
        return False


def _name_sidecar(file: Path, path: str | Callable[[str], str]) -> None:
    """Change the path of the first sidecar, or with a function the path of each."""
    if file.suffix == ".json":
        actions = actions_of(file)
        _rename([action["sidecar"] for action in actions if isinstance(action.get("sidecar"), dict)], path)
        rewrite(file, "\n".join(json.dumps(action) for action in actions).encode())
        return
    rows = pq.read_table(file)
    values = rows.column("sidecar").to_pylist()
    _rename([value for value in values if value is not None], path)
    index = rows.schema.get_field_index("sidecar")
    _write(file, rows.set_column(index, "sidecar", pa.array(values, rows.schema.field(index).type)))


def _rename(sidecars: list[dict[str, Any]], path: str | Callable[[str], str]) -> None:
    for sidecar in sidecars[:1] if isinstance(path, str) else sidecars:
        sidecar["path"] = path if isinstance(path, str) else path(str(sidecar.get("path")))


def vanish(table: MadeTable, rng: Random) -> Mutation:
    """Remove a file after it was listed: before, while or after other files are read."""
    files = [file for file in table.files() if file.suffix in (".parquet", ".json", ".crc")]
    checkpoints = [file for file in files if "checkpoint" in file.name or file.parent != table.log]
    file, after = rng.choice(checkpoints or files), rng.randint(0, 12)
    # Answers may come before or after the removal, so no commit has only one meaning.
    is_commit = re.fullmatch(r"[0-9]{20}\.json", file.name) is not None
    meaning = Meaning.ANY if is_commit else meaning_of_loss(table, file)
    return made(meaning, f"{file.name} vanishes after {after} files", file, vanishing={file: after})


def _readable(table: MadeTable, rng: Random) -> tuple[Path | None, pa.Table | None]:
    file = pick(table, rng, PARQUET)
    try:
        return file, None if file is None else pq.read_table(file)
    except (pa.ArrowException, OSError):
        return None, None


def _write(file: Path, rows: pa.Table, **options: Any) -> None:
    status = file.stat()
    pq.write_table(rows, file, **options)
    os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns))
