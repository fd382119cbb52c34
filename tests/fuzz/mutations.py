"""What is done to a log: each mutation says what it may do to the answers."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from deltasnap_core.protocol import file_names
from tests.builders import mtime_of
from tests.fuzz.made_tables import MadeTable


class Meaning(Enum):
    """What a mutation leaves of the meaning of a log.

    SAME: every answer is the oracle's. SAME_OR_ERROR: that, or a DeltaSnapError. ANY: answers agree, or are errors.
    """

    SAME = 0
    SAME_OR_ERROR = 1
    ANY = 2


@dataclass(frozen=True)
class Mutation:
    """What was done to a table: in words, with the names of the files that it changed."""

    meaning: Meaning
    text: str
    touched: frozenset[str]


Mutate = Callable[[MadeTable, Random], Mutation | None]
COMMIT = re.compile(r"[0-9]{20}\.json")
CHECKPOINT = re.compile(r"[0-9]{20}\.checkpoint\..*|.*part.*\.parquet")
HINTS = re.compile(r"_last_checkpoint|.*\.crc|.*\.compacted\.json")
VERSIONS = (0, 1, 2, 9, 10**6, 2**31 - 1, 2**31, 2**53, 2**63 - 2, 2**63 - 1, 10**20 - 1)


def mutated(table: MadeTable, rng: Random) -> list[Mutation]:
    """Do nothing, one thing, seldom two or three to a table; give what was done."""
    done = []
    for _ in range(rng.choice((0, 1, 1, 1, 1, 1, 1, 2, 3))):
        mutation = rng.choice(ALL)(table, rng)
        if mutation is not None:
            done.append(mutation)
    return done


def _mutation(meaning: Meaning, text: str, *files: Path) -> Mutation:
    return Mutation(meaning, text, frozenset(file.name for file in files))


def _pick(table: MadeTable, rng: Random, pattern: re.Pattern[str]) -> Path | None:
    files = [file for file in table.files() if pattern.fullmatch(file.name)]
    return rng.choice(files) if files else None


def _rewrite(file: Path, content: bytes) -> None:
    """Write a file anew that keeps its time."""
    status = file.stat()
    file.write_bytes(content)
    os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns))


def _meaning_of_loss(table: MadeTable, file: Path) -> Meaning:
    """What it means that a file is seen to be gone or broken."""
    if HINTS.fullmatch(file.name):
        return Meaning.SAME
    return Meaning.SAME if CHECKPOINT.fullmatch(file.name) and table.first == 0 else Meaning.SAME_OR_ERROR


# Bytes.


def flip_bytes(table: MadeTable, rng: Random) -> Mutation | None:
    """Change some bytes of any file; of a hint it must not matter, unless the hint still can be understood."""
    file = rng.choice(table.files())
    data = bytearray(file.read_bytes())
    if not data:
        return None
    places = sorted(rng.randrange(len(data)) for _ in range(rng.choice((1, 1, 2, 8))))
    for place in places:
        data[place] ^= 1 << rng.randrange(8)
    _rewrite(file, bytes(data))
    return _mutation(Meaning.ANY, f"bits flipped at {places} of {file.name}", file)


def insert_bytes(table: MadeTable, rng: Random) -> Mutation:
    """Put some bytes into any file."""
    file = rng.choice(table.files())
    data = file.read_bytes()
    place = rng.randint(0, len(data))
    junk = rng.choice((b"\x00", b"\xff\xfe", b"\n", b"\r", b"{", b'"', b"\xed\xa0\x80", rng.randbytes(9)))
    _rewrite(file, data[:place] + junk + data[place:])
    return _mutation(Meaning.ANY, f"{junk!r} inserted at {place} of {file.name}", file)


def truncate(table: MadeTable, rng: Random) -> Mutation:
    """Cut off the end of a file."""
    file = rng.choice(table.files())
    size = file.stat().st_size
    kept = rng.choice((0, size // 2, max(size - 1, 0), rng.randint(0, size)))
    _rewrite(file, file.read_bytes()[:kept])
    is_parquet = file.suffix == ".parquet" and kept < size
    meaning = _meaning_of_loss(table, file) if is_parquet or HINTS.fullmatch(file.name) else Meaning.ANY
    return _mutation(meaning, f"{file.name} cut to {kept} of {size}", file)


# JSON written otherwise.


def spell_otherwise(table: MadeTable, rng: Random) -> Mutation | None:
    """Write the JSON of a commit with other white space, order of keys and escapes of values."""
    file = _pick(table, rng, COMMIT)
    if file is None:
        return None
    indent, escaped = rng.choice(("", " ", "\t")), rng.random() < 0.5
    lines = []
    for action in _actions(file):
        text = json.dumps(
            _reordered(action, rng), ensure_ascii=escaped, separators=(f",{indent}", f"{indent}:{indent}")
        )
        lines.append(indent + text + rng.choice(("", " ", "\r")))
        lines += rng.choice(([], [], [""], ["  "], ["\r"]))
    _rewrite(file, "\n".join(lines).encode() + rng.choice((b"", b"\n", b"\n\n")))
    return _mutation(Meaning.SAME, f"{file.name} spelled otherwise", file)


def add_what_nobody_knows(table: MadeTable, rng: Random) -> Mutation | None:
    """Add actions and fields that no protocol knows."""
    file = _pick(table, rng, COMMIT)
    if file is None:
        return None
    unknown: list[Any] = [{"unheardOf": {"add": {"path": "not one"}}}, {"add": None, "remove": None}, {}]
    actions = _actions(file)
    actions.insert(rng.randint(0, len(actions)), rng.choice(unknown))
    for action in actions:
        for values in action.values():
            if isinstance(values, dict) and rng.random() < 0.3:
                values["unheardOf"] = rng.choice((1, "add", None, {"add": {"path": "x"}}, [{"remove": 1}]))
    _write_actions(file, actions)
    return _mutation(Meaning.SAME, f"unknown actions and fields in {file.name}", file)


def escape_keys(table: MadeTable, rng: Random) -> Mutation | None:
    """Escape characters of keys, as any JSON writer may."""
    file = _pick(table, rng, COMMIT)
    if file is None:
        return None

    def escaped(match: re.Match[str]) -> str:
        key = match[1]
        place = rng.randrange(len(key))
        return f'"{key[:place]}\\u{ord(key[place]):04x}{key[place + 1 :]}":'

    text = file.read_text(encoding="utf-8")
    _rewrite(file, re.sub(r'"([A-Za-z]+)":', lambda m: escaped(m) if rng.random() < 0.5 else m[0], text).encode())
    return _mutation(Meaning.SAME_OR_ERROR, f"keys escaped in {file.name}", file)


def join_lines(table: MadeTable, rng: Random) -> Mutation | None:
    """Put two actions on a line, as two objects or as one."""
    file = _pick(table, rng, COMMIT)
    actions = _actions(file) if file else []
    if file is None or len(actions) < 2:
        return None
    place = rng.randrange(len(actions) - 1)
    one, two = actions[place : place + 2]
    as_one = rng.random() < 0.5 and not one.keys() & two.keys()
    joined = json.dumps(one | two) if as_one else json.dumps(one) + rng.choice(("", " ")) + json.dumps(two)
    lines = [json.dumps(action) for action in actions]
    lines[place : place + 2] = [joined]
    _rewrite(file, "\n".join(lines).encode())
    return _mutation(Meaning.SAME_OR_ERROR, f"lines {place + 1} and {place + 2} of {file.name} joined: {joined}", file)


def repeat_key(table: MadeTable, rng: Random) -> Mutation | None:
    """Write a key twice."""
    file = _pick(table, rng, COMMIT)
    if file is None:
        return None
    lines = [json.dumps(action) for action in _actions(file)]
    place = rng.randrange(len(lines))
    keys = list(re.finditer(r'"[A-Za-z]+": ', lines[place]))
    key = rng.choice(keys)
    value = rng.choice(("null", "1", '"x"', "{}", '{"path": "other", "size": 3}'))
    lines[place] = lines[place][: key.start()] + key[0] + value + ", " + lines[place][key.start() :]
    _rewrite(file, "\n".join(lines).encode())
    return _mutation(Meaning.ANY, f"line {place + 1} of {file.name}: {lines[place]}", file)


# JSON of another content.

_ODD: tuple[Callable[[], str], ...] = (
    lambda: "null",
    lambda: "true",
    lambda: '""',
    lambda: "-1",
    lambda: "1e3",
    lambda: "1.5",
    lambda: str(2**31),
    lambda: str(2**63 - 1),
    lambda: str(2**63),
    lambda: str(-(2**63)),
    lambda: "9" * 5000,
    lambda: "1e999",
    lambda: "NaN",
    lambda: "-Infinity",
    lambda: "[]",
    lambda: "{}",
    lambda: '"\\ud800"',
    lambda: '"\\u0000"',
    lambda: '"\\udbff\\udfff"',
    lambda: '"../../../etc/passwd"',
    lambda: '"http://127.0.0.1:9/x"',
    lambda: "[" * 100_000 + "]" * 100_000,
    lambda: '{"a":' * 5_000 + "1" + "}" * 5_000,
    lambda: '"' + "x" * 100_000 + '"',
)


def replace_value(table: MadeTable, rng: Random) -> Mutation | None:
    """Put a value of another type, or an extreme one, in the place of any value of any JSON file."""
    file = _pick(table, rng, re.compile(r".*\.json|.*\.crc|_last_checkpoint"))
    if file is None:
        return None
    actions = _actions(file)
    place = rng.randrange(len(actions))
    path = rng.choice(_paths(actions[place]))
    # A string that no log has stands for the value until the line is text, which may hold what no value can.
    lines = [json.dumps(action) for action in actions]
    value = rng.choice(_ODD)()
    lines[place] = json.dumps(_with(actions[place], path, "@value@")).replace('"@value@"', value)
    _rewrite(file, "\n".join(lines).encode("utf-8", "surrogatepass"))
    shown = value if len(value) < 60 else f"{value[:20]}... ({len(value)} characters)"
    return _mutation(Meaning.ANY, f"{'.'.join(map(str, path))} of line {place + 1} of {file.name} is {shown}", file)


def break_hint(table: MadeTable, rng: Random) -> Mutation:
    """Write a hint that is of no use."""
    file = table.log / file_names.LAST_CHECKPOINT
    deep = b'{"version":' + b"[" * 100_000
    texts = (b"", b"{}", b"null", b"[1]", b"\xff", b'{"version":true,"size":1}', b'{"version":9999,"size":1}', deep)
    more = (b'{"version":-1,"size":1}', b'{"version":9223372036854775807,"size":1}', b'{"version":1e3,"size":1}')
    text = rng.choice(texts + more)
    file.write_bytes(text)
    return _mutation(Meaning.SAME, f"_last_checkpoint is {text[:60]!r}", file)


# Files.


def remove_file(table: MadeTable, rng: Random) -> Mutation | None:
    """Remove a file."""
    file = rng.choice(table.files())
    meaning = _meaning_of_loss(table, file)
    file.unlink()
    return _mutation(meaning, f"{file.name} removed", file)


def copy_to_another_version(table: MadeTable, rng: Random) -> Mutation | None:
    """Give a file, or a copy of it, the name of another version."""
    file = _pick(table, rng, re.compile(r"[0-9]{20}\..*"))
    if file is None:
        return None
    version = rng.choice(VERSIONS)
    target = file.with_name(f"{version:020d}{file.name[20:]}")
    if target.exists():
        return None
    shutil.copy2(file, target)
    moved = rng.random() < 0.3
    if moved:
        file.unlink()
    return _mutation(Meaning.ANY, f"{file.name} {'moved' if moved else 'copied'} to {target.name}", file, target)


def put_no_file(table: MadeTable, rng: Random) -> Mutation | None:
    """Put what is no file in the place of one: a folder, a link to itself, a pipe, a link to nowhere; or close it."""
    choices = [*table.files(), table.log / file_names.LAST_CHECKPOINT]
    file = rng.choice(choices)
    meaning = _meaning_of_loss(table, file)
    file.unlink(missing_ok=True)
    kind = rng.choice(("folder", "loop", "pipe", "nowhere"))
    if kind == "folder":
        file.mkdir()
    elif kind == "loop":
        file.symlink_to(file.name)
    elif kind == "nowhere":
        file.symlink_to("nowhere")
    else:
        os.mkfifo(file)
    return _mutation(meaning, f"{file.name} is a {kind}", file)


def add_stray_file(table: MadeTable, rng: Random) -> Mutation | None:
    """Add a file that is none of the log: one without a meaning, a stale checksum of Hadoop's, a leftover."""
    checkpoint = _pick(table, rng, CHECKPOINT)
    names = ["readme.txt", "00000000000000000000.json.tmp", "0.json", f"{10**20}.json", "00000000000000000001.txt"]
    file = table.log / rng.choice(names)
    data = b"stray"
    if checkpoint is not None and rng.random() < 0.5:
        file, data = checkpoint.with_name(f".{checkpoint.name}.crc"), b"crc\x00\x00\x00\x02\x00wrong"
    file.write_bytes(data)
    return _mutation(Meaning.SAME, f"stray file {file.name}", file)


def empty_part_of_multipart(table: MadeTable, rng: Random) -> Mutation | None:
    """Write the first part of a checkpoint that never was finished: it must not be seen."""
    version = rng.choice(table.versions)
    file = table.log / next(iter(file_names.multipart_checkpoint_files(version, 3)))
    file.write_bytes(rng.randbytes(30))
    return _mutation(Meaning.SAME, f"lone part {file.name}", file)


# Checkpoints.


def retype_column(table: MadeTable, rng: Random) -> Mutation | None:
    """Give a field of a checkpoint another type, another name, or no values."""
    file = _pick(table, rng, re.compile(r".*\.parquet"))
    if file is None:
        return None
    try:
        rows = pq.read_table(file)
    except (pa.ArrowException, OSError):
        return None
    structs = [column for column in rows.schema if pa.types.is_struct(column.type)]
    if not structs:
        return None
    column = rng.choice(structs)
    index = rng.randrange(column.type.num_fields)
    changed, text = _retyped(rows, column.name, index, rng)
    if changed is None:
        return None
    status = file.stat()
    pq.write_table(changed, file)
    os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns))
    return _mutation(Meaning.ANY, f"{column.name}.{column.type.field(index).name} of {file.name} {text}", file)


def _retyped(rows: pa.Table, name: str, index: int, rng: Random) -> tuple[pa.Table | None, str]:
    column = rows.column(name).combine_chunks()
    arrays = column.flatten()
    fields = [column.type.field(number) for number in range(column.type.num_fields)]
    field, array = fields[index], arrays[index]
    how = rng.choice(
        ("renamed", "is null", "is text", "is int32", "is double", "is int8", "is timestamp", "is left out")
    )
    kinds = {"text": pa.string(), "int32": pa.int32(), "double": pa.float64(), "int8": pa.int8()}
    if how == "is left out":
        if len(fields) == 1:
            return None, how
        del fields[index], arrays[index]
    elif how == "renamed":
        fields[index] = field.with_name("somethingElse")
    elif how == "is null":
        arrays[index] = pa.nulls(len(array), field.type)
    else:
        kind = kinds.get(how.removeprefix("is "), pa.timestamp("ms"))
        try:
            arrays[index] = array.cast(kind)
        except (pa.ArrowException, NotImplementedError):
            arrays[index] = pa.nulls(len(array), kind)
        fields[index] = field.with_type(kind)
    rebuilt = pa.StructArray.from_arrays(arrays, fields=fields, mask=column.is_null())
    return rows.set_column(rows.schema.get_field_index(name), name, rebuilt), how


def _actions(file: Path) -> list[Any]:
    found = []
    for line in file.read_bytes().split(b"\n"):
        try:
            found.append(json.loads(line))
        except (ValueError, RecursionError):  # blank, or broken by an earlier mutation
            continue
    return [action for action in found if isinstance(action, dict)] or [{}]


def _write_actions(file: Path, actions: list[Any]) -> None:
    _rewrite(file, "\n".join(json.dumps(action) for action in actions).encode())


def _reordered(value: Any, rng: Random) -> Any:
    if not isinstance(value, dict):
        return value
    return {key: _reordered(value[key], rng) for key in rng.sample(list(value), len(value))}


def _paths(value: Any, prefix: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [prefix, *(path for key, item in inner for path in _paths(item, (*prefix, key)))]


def _with(value: Any, path: tuple[Any, ...], new: Any) -> Any:
    if not path:
        return new
    copy = value.copy()
    copy[path[0]] = _with(copy[path[0]], path[1:], new)
    return copy


def touch_nothing_but_time(table: MadeTable, rng: Random) -> Mutation | None:
    """Let a checkpoint or a hint be of another time: of no meaning."""
    file = _pick(table, rng, re.compile(f"{CHECKPOINT.pattern}|{HINTS.pattern}"))
    if file is None:
        return None
    os.utime(file, (mtime_of(3) / 1000, rng.choice((0, 1, 4_000_000_000))))
    return _mutation(Meaning.ANY, f"{file.name} is of another time", file)


ALL: tuple[Mutate, ...] = (
    flip_bytes,
    flip_bytes,
    insert_bytes,
    truncate,
    spell_otherwise,
    add_what_nobody_knows,
    escape_keys,
    join_lines,
    repeat_key,
    replace_value,
    replace_value,
    replace_value,
    break_hint,
    remove_file,
    copy_to_another_version,
    put_no_file,
    add_stray_file,
    empty_part_of_multipart,
    retype_column,
    retype_column,
    touch_nothing_but_time,
)
