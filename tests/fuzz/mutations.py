"""Mutations of a log. Each one states its effect on the answers."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

from deltasnap_core.protocol.log_files import file_names
from tests.builders import add, mtime_of, multipart_checkpoint_files
from tests.fuzz import checkpoint_mutations
from tests.fuzz.made_tables import MadeTable
from tests.fuzz.meanings import (
    CHECKPOINT,
    COMMIT,
    HINTS,
    Meaning,
    Mutate,
    Mutation,
    actions_of,
    made,
    meaning_of_loss,
    pick,
    rewrite,
)

VERSIONS = (0, 1, 2, 9, 10**6, 2**31 - 1, 2**31, 2**53, 2**63 - 2, 2**63 - 1, 10**20 - 1)

_SURROGATE = re.compile("[\ud800-\udfff]")  # in JSON only as an escape


def mutated(table: MadeTable, rng: Random) -> list[Mutation]:
    """Apply no mutation, one, or rarely two or three to a table. Return them."""
    done = []
    for _ in range(rng.choice((0, 1, 1, 1, 1, 1, 1, 2, 3))):
        mutate = rng.choice(ALL)
        mutation = mutate(table, rng)
        if mutation is not None:
            done.append(replace(mutation, kind=mutate.__name__.replace("_", " ")))
    return done


# Bytes.


def flip_bytes(table: MadeTable, rng: Random) -> Mutation | None:
    """Change some bytes of any file. In a hint this has no effect, unless the hint is still valid."""
    file = rng.choice(table.files())
    data = bytearray(file.read_bytes())
    if not data:
        return None
    places = sorted(rng.randrange(len(data)) for _ in range(rng.choice((1, 1, 2, 8))))
    for place in places:
        data[place] ^= 1 << rng.randrange(8)
    rewrite(file, bytes(data))
    return made(Meaning.ANY, f"bits flipped at {places} of {file.name}", file)


def insert_bytes(table: MadeTable, rng: Random) -> Mutation:
    """Insert some bytes into any file."""
    file = rng.choice(table.files())
    data = file.read_bytes()
    place = rng.randint(0, len(data))
    junk = rng.choice((b"\x00", b"\xff\xfe", b"\n", b"\r", b"{", b'"', b"\xed\xa0\x80", rng.randbytes(9)))
    rewrite(file, data[:place] + junk + data[place:])
    return made(Meaning.ANY, f"{junk!r} inserted at {place} of {file.name}", file)


def truncate(table: MadeTable, rng: Random) -> Mutation:
    """Cut off the end of a file."""
    file = rng.choice(table.files())
    size = file.stat().st_size
    kept = rng.choice((0, size // 2, max(size - 1, 0), rng.randint(0, size)))
    rewrite(file, file.read_bytes()[:kept])
    is_parquet = file.suffix == ".parquet" and kept < size
    meaning = meaning_of_loss(table, file) if is_parquet or HINTS.fullmatch(file.name) else Meaning.ANY
    return made(meaning, f"{file.name} cut to {kept} of {size}", file)


# The same JSON in another form.


def spell_otherwise(table: MadeTable, rng: Random) -> Mutation | None:
    """Write the JSON of a commit with different white space, key order and value escapes."""
    file = pick(table, rng, COMMIT)
    if file is None:
        return None
    indent, escaped = rng.choice(("", " ", "\t")), rng.random() < 0.5
    lines = []
    for action in actions_of(file):
        is_ascii = escaped or _SURROGATE.search(json.dumps(action, ensure_ascii=False)) is not None
        text = json.dumps(
            _reordered(action, rng), ensure_ascii=is_ascii, separators=(f",{indent}", f"{indent}:{indent}")
        )
        lines.append(indent + text + rng.choice(("", " ", "\r")))
        lines += rng.choice(([], [], [""], ["  "], ["\r"]))
    rewrite(file, "\n".join(lines).encode() + rng.choice((b"", b"\n", b"\n\n")))
    return made(Meaning.SAME, f"{file.name} spelled otherwise", file)


def add_what_nobody_knows(table: MadeTable, rng: Random) -> Mutation | None:
    """Add unknown actions and fields."""
    file = pick(table, rng, COMMIT)
    if file is None:
        return None
    unknown: list[Any] = [{"unheardOf": {"add": {"path": "not one"}}}, {"add": None, "remove": None}, {}]
    actions = actions_of(file)
    actions.insert(rng.randint(0, len(actions)), rng.choice(unknown))
    for action in actions:
        for values in action.values():
            if isinstance(values, dict) and rng.random() < 0.3:
                values["unheardOf"] = rng.choice((1, "add", None, {"add": {"path": "x"}}, [{"remove": 1}]))
    _write_actions(file, actions)
    return made(Meaning.SAME, f"unknown actions and fields in {file.name}", file)


def escape_keys(table: MadeTable, rng: Random) -> Mutation | None:
    """Escape characters of keys, as JSON allows."""
    file = pick(table, rng, COMMIT)
    if file is None:
        return None

    def escaped(match: re.Match[str]) -> str:
        key = match[1]
        place = rng.randrange(len(key))
        return f'"{key[:place]}\\u{ord(key[place]):04x}{key[place + 1 :]}":'

    text = file.read_bytes().decode(errors="surrogateescape")
    text = re.sub(r'"([A-Za-z]+)":', lambda m: escaped(m) if rng.random() < 0.5 else m[0], text)
    rewrite(file, text.encode(errors="surrogateescape"))
    return made(Meaning.SAME_OR_ERROR, f"keys escaped in {file.name}", file)


def join_lines(table: MadeTable, rng: Random) -> Mutation | None:
    """Put two actions on a line, as two objects or as one."""
    file = pick(table, rng, COMMIT)
    actions = actions_of(file) if file else []
    if file is None or len(actions) < 2:
        return None
    place = rng.randrange(len(actions) - 1)
    one, two = actions[place : place + 2]
    as_one = rng.random() < 0.5 and not one.keys() & two.keys()
    joined = json.dumps(one | two) if as_one else json.dumps(one) + rng.choice(("", " ")) + json.dumps(two)
    lines = [json.dumps(action) for action in actions]
    lines[place : place + 2] = [joined]
    rewrite(file, "\n".join(lines).encode())
    return made(Meaning.SAME_OR_ERROR, f"lines {place + 1} and {place + 2} of {file.name} joined: {joined}", file)


def repeat_key(table: MadeTable, rng: Random) -> Mutation | None:
    """Write a key twice."""
    file = pick(table, rng, COMMIT)
    if file is None:
        return None
    lines = [json.dumps(action) for action in actions_of(file)]
    place = rng.randrange(len(lines))
    keys = list(re.finditer(r'"[A-Za-z]+": ', lines[place]))
    if not keys:  # an earlier mutation emptied the object
        return None
    key = rng.choice(keys)
    value = rng.choice(("null", "1", '"x"', "{}", '{"path": "other", "size": 3}'))
    lines[place] = lines[place][: key.start()] + key[0] + value + ", " + lines[place][key.start() :]
    rewrite(file, "\n".join(lines).encode())
    return made(Meaning.ANY, f"line {place + 1} of {file.name}: {lines[place]}", file)


def end_lines_in_x(table: MadeTable, rng: Random) -> Mutation | None:
    """End lines of a commit in an `x`, all or some of them, as old Databricks runtimes did."""
    file = pick(table, rng, COMMIT)
    if file is None:
        return None
    share = rng.choice((0.5, 1))
    lines = [
        line + b"x" if line.endswith(b"}") and rng.random() < share else line for line in file.read_bytes().split(b"\n")
    ]
    rewrite(file, b"\n".join(lines))
    return made(Meaning.SAME, f"lines of {file.name} end in x", file)


def put_text_after_object(table: MadeTable, rng: Random) -> Mutation | None:
    """Put any other text after the object of a line."""
    file = pick(table, rng, COMMIT)
    if file is None:
        return None
    lines = file.read_bytes().split(b"\n")
    place = rng.randrange(len(lines))
    lines[place] += rng.choice((b"xx", b" x", b"x ", b"x\r", b"X", b"}", b",", b"null", b"{}", b"1", b"\0", b"}x"))
    rewrite(file, b"\n".join(lines))
    return made(Meaning.SAME_OR_ERROR, f"line {place + 1} of {file.name} is {lines[place]!r:.300}", file)


# JSON with other content.

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
    """Replace any value of any JSON file by a value of another type, or an extreme one."""
    file = pick(table, rng, re.compile(r".*\.json|.*\.crc|_last_checkpoint"))
    if file is None:
        return None
    actions = actions_of(file)
    place = rng.randrange(len(actions))
    try:
        path = rng.choice(_paths(actions[place]))
        lines = [json.dumps(action) for action in actions]
    except RecursionError:  # an earlier mutation nested it deeply
        return None
    # A placeholder stands for the value until the line is text, which may contain what no value can.
    value = rng.choice(_ODD)()
    lines[place] = json.dumps(_with(actions[place], path, "@value@")).replace('"@value@"', value)
    rewrite(file, "\n".join(lines).encode("utf-8", "surrogatepass"))
    shown = value if len(value) < 60 else f"{value[:20]}... ({len(value)} characters)"
    return made(Meaning.ANY, f"{'.'.join(map(str, path))} of line {place + 1} of {file.name} is {shown}", file)


def nest_deeply(table: MadeTable, rng: Random) -> Mutation | None:
    """Nest objects or arrays deeply: in the text of a string value, or in an unknown field."""
    file = pick(table, rng, re.compile(r"[0-9]{20}\.json|.*\.crc|_last_checkpoint"))
    if file is None:
        return None
    depth, is_array = rng.choice((400, 600, 990, 1100, 4_000, 100_000)), rng.random() < 0.5
    deep = "[" * depth + "]" * depth if is_array else '{"a":' * depth + "1" + "}" * depth
    stats = [f'{{"numRecords":3,"deep":{deep}}}', f'{{"deep":{deep},"numRecords":3}}', deep]
    texts = {"stats": rng.choice(stats), "schemaString": deep, "configuration": deep}
    actions = actions_of(file)
    inner = [each for action in actions for each in (action, *action.values()) if isinstance(each, dict)]
    places = [(each, name) for each in inner for name in texts if isinstance(each.get(name), str)]
    if file.suffix == ".crc" and "numFiles" in actions[0]:
        actions[0]["allFiles"] = [add("plain.parquet", stats=texts["stats"])["add"]]
    if places and rng.random() < 0.8:
        each, name = rng.choice(places)
        each[name] = texts[name]
        _write_actions(file, actions)
        return made(Meaning.ANY, f"{name} in {file.name} is nested {depth} levels", file)
    actions[rng.randrange(len(actions))][rng.choice(("unheardOf", "tags"))] = "@value@"
    rewrite(file, "\n".join(json.dumps(action) for action in actions).replace('"@value@"', deep).encode())
    return made(Meaning.ANY, f"an unknown field in {file.name} is nested {depth} levels", file)


def break_hint(table: MadeTable, rng: Random) -> Mutation | None:
    """Write an invalid hint."""
    file = table.log / file_names.LAST_CHECKPOINT
    if os.path.lexists(file) and not file.is_file():  # the folder, pipe or link of an earlier mutation
        return None
    deep = b'{"version":' + b"[" * 100_000
    texts = (b"", b"{}", b"null", b"[1]", b"\xff", b'{"version":true,"size":1}', b'{"version":9999,"size":1}', deep)
    more = (b'{"version":-1,"size":1}', b'{"version":9223372036854775807,"size":1}', b'{"version":1e3,"size":1}')
    text = rng.choice(texts + more)
    file.write_bytes(text)
    return made(Meaning.SAME, f"_last_checkpoint is {text[:60]!r}", file)


# Files.


def remove_file(table: MadeTable, rng: Random) -> Mutation | None:
    """Remove a file."""
    file = rng.choice(table.files())
    meaning = meaning_of_loss(table, file)
    file.unlink()
    return made(meaning, f"{file.name} removed", file)


def copy_to_another_version(table: MadeTable, rng: Random) -> Mutation | None:
    """Rename or copy a file to the name of another version."""
    file = pick(table, rng, re.compile(r"[0-9]{20}\..*"))
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
    return made(Meaning.ANY, f"{file.name} {'moved' if moved else 'copied'} to {target.name}", file, target)


def put_no_file(table: MadeTable, rng: Random) -> Mutation | None:
    """Replace a file by something else (a folder, a link to itself, a pipe, a dangling link)."""
    choices = [*table.files(), table.log / file_names.LAST_CHECKPOINT]
    file = rng.choice(choices)
    meaning = meaning_of_loss(table, file)
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
    return made(meaning, f"{file.name} is a {kind}", file)


def add_stray_file(table: MadeTable, rng: Random) -> Mutation | None:
    """Add a file that does not belong to the log: a meaningless one, a stale Hadoop checksum, a leftover."""
    checkpoint = pick(table, rng, CHECKPOINT)
    names = ["readme.txt", "00000000000000000000.json.tmp", "0.json", f"{10**20}.json", "00000000000000000001.txt"]
    file = table.log / rng.choice(names)
    data = b"stray"
    if checkpoint is not None and rng.random() < 0.5:
        file, data = checkpoint.with_name(f".{checkpoint.name}.crc"), b"crc\x00\x00\x00\x02\x00wrong"
    file.write_bytes(data)
    return made(Meaning.SAME, f"stray file {file.name}", file)


def empty_part_of_multipart(table: MadeTable, rng: Random) -> Mutation | None:
    """Write the first part of an unfinished checkpoint, which must be ignored."""
    version = rng.choice(table.versions)
    file = table.log / next(iter(multipart_checkpoint_files(version, 3)))
    file.write_bytes(rng.randbytes(30))
    return made(Meaning.SAME, f"lone part {file.name}", file)


def _write_actions(file: Path, actions: list[Any]) -> None:
    rewrite(file, "\n".join(json.dumps(action) for action in actions).encode())


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
    """Change the modification time of a checkpoint or a hint, which has no effect."""
    file = pick(table, rng, re.compile(f"{CHECKPOINT.pattern}|{HINTS.pattern}"))
    if file is None:
        return None
    os.utime(file, (mtime_of(3) / 1000, rng.choice((0, 1, 4_000_000_000))))
    return made(Meaning.ANY, f"{file.name} is of another time", file)


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
    end_lines_in_x,
    put_text_after_object,
    replace_value,
    replace_value,
    replace_value,
    nest_deeply,
    nest_deeply,
    break_hint,
    remove_file,
    copy_to_another_version,
    put_no_file,
    add_stray_file,
    empty_part_of_multipart,
    touch_nothing_but_time,
    checkpoint_mutations.flip_in_pages,
    checkpoint_mutations.flip_in_pages,
    checkpoint_mutations.retype_column,
    checkpoint_mutations.retype_column,
    checkpoint_mutations.reshape_columns,
    checkpoint_mutations.set_extreme,
    checkpoint_mutations.put_two_in_a_row,
    checkpoint_mutations.put_two_in_a_row,
    checkpoint_mutations.lead_sidecar_elsewhere,
    checkpoint_mutations.lead_sidecar_elsewhere,
    checkpoint_mutations.name_sidecar_in_full,
    checkpoint_mutations.vanish,
    checkpoint_mutations.vanish,
)
