"""The single authority on parsing lines of a commit: it determines the action of each line.

Arrow's JSON reader parses whole batches, with a schema of all fields that the replay reads. Spark reads regular lines
in the same way. Batches with irregular lines are parsed again line by line: each line is rewritten in the usual form or
rejected.

| a line with | result | reason |
|-|-|-|
| escaped characters in keys and strings, any white space | read | RFC 8259 |
| an unknown action or field, `"add": null` | ignored | PROTOCOL.md, Requirements for Readers |
| a key with another letter case (`ADD`) | treated as unknown | RFC 8259; Spark compares exactly too |
| an integer as `12.0`, `1e3` (below 2^53) | read | RFC 8259; Jackson and delta-kernel-rs read it |
| `stats` as an object | read as its text | Spark does the same |
| a key twice in one object | the last one counts | Jackson (Delta on Spark) and delta-kernel-rs do the same |
| one `x` right after the object, at the end of the line | read without it | Databricks runtimes of 2020 wrote it |
| several objects, two actions in one object | CorruptLogError | a line is one action; readers differ on which |
| no object; other text before or after it; a byte order mark | CorruptLogError | RFC 8259 |
| NaN, Infinity, raw control characters, single quotes | CorruptLogError | RFC 8259 |
| a lone surrogate (`\\ud83c`) in `stats` | read, escaped in the text of `stats` | a writer cut a bound: it is unknown |
| invalid UTF-8, any other lone surrogate | CorruptLogError | UTF-8 cannot encode it |
| an integer outside its 64 (or 32) bits, or with a fraction | CorruptLogError | PROTOCOL.md, Actions |
| a field of another type, no `path`, an `add` without `size` | CorruptLogError | PROTOCOL.md, Actions |
| more than 500 levels of nesting, more than MAX_LINE_BYTES | CorruptLogError | limits of parsers and memory |

Strings may contain escaped NUL and U+10FFFF. NaN is ignored in a field that nobody reads, after a key that ends with a
backslash. Only a line feed ends a line: a JSON string may contain U+2028 and similar characters.
Source: PROTOCOL.md, Delta Log Entries; Actions.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from deltasnap_core.errors import CorruptLogError
from deltasnap_core.protocol.actions import AddFile, RemoveFile
from deltasnap_core.protocol.json_records import json_text, whole_number
from deltasnap_core.protocol.json_text import decode_json
from deltasnap_core.protocol.table_features import MANIFEST_COMMIT_ACTION
from deltasnap_core.rules.file_actions import DELETION_VECTOR
from deltasnap_core.rules.texts.json_lines import BLANK, are_safe, parse_lines
from deltasnap_core.rules.totals.measures import MEASURED_ACTION, measures_of

MAX_LINE_BYTES = 32 << 20
"""A longer line is rejected. No writer produces one, and parsing it holds several copies in memory."""

FILE_ACTIONS = ("add", "remove")
CHANGE_DATA_ACTION = "cdc"
OTHER_ACTIONS = (
    "protocol",
    "metaData",
    "txn",
    "domainMetadata",
    "commitInfo",
    "sidecar",
    "checkpointMetadata",
    CHANGE_DATA_ACTION,
    MANIFEST_COMMIT_ACTION,
)

LINES_SCHEMA = pa.schema(
    [
        pa.field("commit_version", pa.int64(), nullable=False),
        pa.field("line_number", pa.int32(), nullable=False),
        pa.field("line", pa.string(), nullable=False),
        pa.field("action", pa.string()),
        pa.field("data_change", pa.bool_()),
        *MEASURED_ACTION,
    ]
)
"""Lines of a commit.

commit_version: the version of the commit.
line_number:    from 1.
line:           the text, with the line feed at its end.
action:         the name of the action; null: no known action.
data_change:    whether a file action changes data; null for other actions.
The other columns are the measures of a file action.
"""

UNREAD_LINES_SCHEMA = pa.schema([LINES_SCHEMA.field(name) for name in ("commit_version", "line_number", "line")])
"""Lines that are not parsed yet."""

MEASURED_LINES = pa.schema(
    [LINES_SCHEMA.field(name) for name in ("commit_version", "line_number", *MEASURED_ACTION.names)]
)
"""File actions without their text."""

_ANY = pa.struct([])
_MAPS = ("partitionValues", "tags")  # Arrow has no maps in JSON: this checks only that they are objects
_OF_BOTH = [
    ("path", pa.string()),
    ("partitionValues", _ANY),
    ("size", pa.int64()),
    ("dataChange", pa.bool_()),
    ("stats", pa.string()),
    ("tags", _ANY),
    ("deletionVector", DELETION_VECTOR),
    ("baseRowId", pa.int64()),
    ("defaultRowCommitVersion", pa.int64()),
]
_ADD = pa.struct([*_OF_BOTH, ("modificationTime", pa.int64()), ("clusteringProvider", pa.string())])
_REMOVE = pa.struct([*_OF_BOTH, ("deletionTimestamp", pa.int64()), ("extendedFileMetadata", pa.bool_())])
_SCHEMA = pa.schema([("add", _ADD), ("remove", _REMOVE), *((name, _ANY) for name in OTHER_ACTIONS)])
_FILE = {name: {field.name: field.type for field in _SCHEMA.field(name).type} for name in FILE_ACTIONS}

_REQUIRED = {"add": ("path", "size"), "remove": ("path",)}
_TYPED: Mapping[str, type[AddFile] | type[RemoveFile]] = {"add": AddFile, "remove": RemoveFile}

_LINES_TO_READ_EXACTLY = 256
_MANY_BYTES, _FEW_BYTES = 64 << 10, 8
"""Most lines of a text are blank if it has more than `_MANY_BYTES` and, on average, fewer than `_FEW_BYTES` a line.
No action is so short.
"""
_MARKED_END = "}x"
_LONE_SURROGATE = re.compile("[\ud800-\udfff]")  # Python has pairs as one character
"""The end of a line as Databricks runtimes of 2020 wrote it. A line that ends so inside a string is invalid anyway."""
# Possessive and matched in place, not searched: linear even for a text of blanks only.
_LINE_AFTER_BLANKS = re.compile(rb"[ \t\r\n]*+([^\n]+)")
_MAX_TEXT_BYTES = 2**31 - 1


def read_lines(path: str, version: int, content: bytes, *, first_line: int = 1) -> pa.Table:
    """Return the lines of a file, or of a part of it, that are not blank (LINES_SCHEMA), in file order.

    first_line: the number of the first line of `content`.
    Errors: CorruptLogError naming file and line.
    """
    path_of = {version: path}
    return classify_lines(path_of, split_lines(path_of, {version: content}, first_line=first_line))


def split_lines(path_of: Mapping[int, str], contents: Mapping[int, bytes], *, first_line: int = 1) -> pa.Table:
    """Return the lines of files that are not blank (UNREAD_LINES_SCHEMA), in file order. `classify_lines` parses them.

    It splits all files in one call: one call per file would take longer than parsing the lines of most files.
    contents: by version, ascending. path_of: of these versions, and perhaps others. first_line: the number of the first
    line of each file.
    Errors: CorruptLogError naming file and line, for a line that is too long or invalid UTF-8.
    """
    sparse = None
    if any(map(_is_mostly_blank, contents.values())):  # not one row for each blank line: there may be millions
        sparse = [_without_blank_lines(content) for content in contents.values()]
        ended = [text for text, _ in sparse]
    else:
        ended = [content if content.endswith(b"\n") else content + b"\n" for content in contents.values()]
    try:
        text = _lines_of(b"".join(ended) if len(ended) > 1 else ended[0])
        text.validate(full=True)
    except pa.ArrowInvalid as error:
        raise _no_utf8(path_of, contents, first_line) from error
    counts = np.array([content.count(b"\n") for content in ended] if len(ended) > 1 else [len(text)])
    versions = np.repeat(np.array(list(contents), np.int64), counts)
    places = np.arange(len(text)) - np.repeat(counts.cumsum() - counts, counts)
    if sparse is not None:
        places = np.concatenate([np.array(each, np.int64) for _, each in sparse])
    numbers = places + first_line
    lengths = pc.binary_length(text)
    if (pc.max(lengths).as_py() or 0) > MAX_LINE_BYTES:
        index = pc.index(pc.greater(lengths, MAX_LINE_BYTES), True).as_py()
        raise too_long_error(path_of[int(versions[index])], int(numbers[index]))
    columns = {"commit_version": versions, "line_number": numbers.astype(np.int32), "line": text}
    lines = pa.table(columns, schema=UNREAD_LINES_SCHEMA)
    if pc.all(pc.starts_with(text, "{")).as_py():
        return lines
    is_blank = pc.equal(pc.binary_length(pc.ascii_ltrim(text, BLANK + "\n")), 0)
    return lines.filter(pc.invert(is_blank))


def _is_mostly_blank(content: bytes) -> bool:
    return len(content) > _MANY_BYTES and content.count(b"\n") * _FEW_BYTES > len(content)


def _without_blank_lines(content: bytes) -> tuple[bytes, list[int]]:
    """Return the text without blank lines and without leading white space, and the index of each line, from 0."""
    lines, places, place, end = [], [], 0, 0
    while (found := _LINE_AFTER_BLANKS.match(content, end)) is not None:
        place += content.count(b"\n", end, found.start(1))
        end = found.end()
        lines.append(found[1] + b"\n")
        places.append(place)
    return b"".join(lines), places


def classify_lines(path_of: Mapping[int, str], lines: pa.Table) -> pa.Table:
    """Return the parsed lines (LINES_SCHEMA). Lines of an unusual form are rewritten in the usual one.

    path_of: the file of each version.
    Errors: CorruptLogError naming file and line.
    """
    if not lines.num_rows:
        return LINES_SCHEMA.empty_table()
    lines = without_marks(lines)
    actions = _regular_actions(lines["line"])
    if actions is not None:
        unread = lines.select(UNREAD_LINES_SCHEMA.names)
        return pa.table([*unread.columns, *actions.columns], schema=LINES_SCHEMA)
    if lines.num_rows <= _LINES_TO_READ_EXACTLY:
        return _read_exactly(path_of, lines)
    middle = lines.num_rows // 2
    return pa.concat_tables(
        [classify_lines(path_of, lines.slice(0, middle)), classify_lines(path_of, lines.slice(middle))]
    )


def has_marks(lines: pa.Table) -> bool:
    """Return whether some line (UNREAD_LINES_SCHEMA) has an `x` after its object, as in old Databricks logs."""
    return bool(pc.any(pc.ends_with(lines["line"], f"{_MARKED_END}\n")).as_py())


def without_marks(lines: pa.Table) -> pa.Table:
    """Return lines (UNREAD_LINES_SCHEMA) without the `x` of `has_marks`."""
    if not has_marks(lines):
        return lines
    texts = pc.replace_substring_regex(lines["line"], rf"{re.escape(_MARKED_END)}\n$", "}\n")
    return lines.set_column(lines.column_names.index("line"), lines.schema.field("line"), texts)


def lines_with(lines: pa.Table, *actions: str) -> pa.Table:
    """Return the lines (LINES_SCHEMA) with one of these actions."""
    return lines.filter(pc.is_in(lines["action"], pa.array(actions)))


def parse_fields(lines: pa.Table, schema: pa.Schema) -> pa.Table:
    """Return commit_version, line_number and the fields of a schema (without maps) of lines from `classify_lines`.

    It uses the same parser.
    """
    found = parse_lines(lines["line"], schema) if lines.num_rows else schema.empty_table()
    if found is None:
        raise ValueError("expected classified lines")
    for index, name in enumerate(("commit_version", "line_number")):
        found = found.add_column(index, LINES_SCHEMA.field(name), lines[name])
    return found


def decode_line(path: str, number: int, line: str) -> dict[str, Any]:
    """Return the decoded object of a line. Errors: CorruptLogError naming file and line."""
    try:
        value = decode_json(line, adapt=_with_escaped_stats)
    except ValueError as error:
        raise CorruptLogError(path=path, line=number, reason=f"expected a line of JSON: {error}") from error
    if not isinstance(value, dict):
        raise CorruptLogError(path=path, line=number, reason=f"expected a JSON object, found {line[:80]!r}")
    return value


def _with_escaped_stats(value: Any) -> Any:
    """Return a decoded line. Halves of characters in the JSON text of `stats` are escaped, which is the same JSON."""
    if not isinstance(value, dict):
        return value
    found = dict(value)
    for name in FILE_ACTIONS:
        fields = value.get(name)
        stats = fields.get("stats") if isinstance(fields, dict) else None
        if isinstance(fields, dict) and isinstance(stats, str | dict):
            text = stats if isinstance(stats, str) else json_text(stats)
            escaped = _LONE_SURROGATE.sub(lambda half: f"\\u{ord(half[0]):04x}", text)
            found[name] = {**fields, "stats": escaped}
    return found


def too_long_error(path: str, number: int) -> CorruptLogError:
    """Return the error for a line that is too long."""
    return CorruptLogError(path=path, line=number, reason=f"expected a line of at most {MAX_LINE_BYTES} bytes")


def missing_commit(path: str) -> CorruptLogError:
    """Return the error for a listed commit whose file no longer exists."""
    return CorruptLogError(path=path, reason="expected a commit, found no file")


def decode_utf8(path: str, number: int, line: bytes) -> str:
    """Return the text of a line. Errors: CorruptLogError naming file and line."""
    try:
        return line.decode()
    except UnicodeDecodeError as error:
        raise CorruptLogError(path=path, line=number, reason=f"expected UTF-8, found {error}") from error


def known_action(path: str, number: int, line: str) -> dict[str, Any]:
    """Return the decoded action of a line, by its name; empty: no known action. Does not check the fields.

    Errors: CorruptLogError naming file and line.
    """
    values = decode_line(path, number, line[:-1] if line.endswith(_MARKED_END) else line)
    known = {name: values[name] for name in _SCHEMA.names if values.get(name) is not None}
    if len(known) > 1:
        raise CorruptLogError(path=path, line=number, reason=f"expected one action, found {' and '.join(known)}")
    return known


def _lines_of(content: bytes) -> pa.StringArray:
    """Return the lines of a text, each with its line feed, without copying. Errors: pa.ArrowInvalid."""
    if len(content) > _MAX_TEXT_BYTES:
        raise pa.ArrowInvalid("more than 2 GiB of text")
    ends = np.flatnonzero(np.frombuffer(content, np.uint8) == ord("\n")) + 1
    offsets = np.concatenate([[0], ends]).astype(np.int32)
    return pa.StringArray.from_buffers(len(ends), pa.py_buffer(offsets), pa.py_buffer(content))


def _regular_actions(texts: pa.ChunkedArray, *, are_json: bool = False) -> pa.Table | None:
    """Return the action of each line (null: no known action) and its measures.

    None: some line must be parsed exactly.
    """
    if not (are_json or are_safe(texts)):
        return None
    alike = _fields_of(texts[0].as_py(), texts[-1].as_py())
    found = None if alike is None else parse_lines(texts, alike, is_all=True)
    if found is None:
        found = parse_lines(texts, _SCHEMA)
    if found is None:
        return None
    actions: pa.ChunkedArray = pa.chunked_array([pa.nulls(found.num_rows, pa.string())])
    count = 0
    for name in found.column_names:
        column = found[name]
        if column.null_count < found.num_rows:
            count += found.num_rows - column.null_count
            actions = pc.if_else(pc.is_valid(column), name, actions)
    is_one_each = count == found.num_rows - actions.null_count
    if not is_one_each or not _has_required_fields(found):
        return None
    measures = measures_of(found).add_column(0, LINES_SCHEMA.field("data_change"), _data_changes(found))
    return measures.add_column(0, LINES_SCHEMA.field("action"), actions)


def _data_changes(actions: pa.Table) -> pa.ChunkedArray:
    """Return whether each file action changes data: its `dataChange` is not false; null for other actions."""
    changes: pa.ChunkedArray = pa.chunked_array([pa.nulls(actions.num_rows, pa.bool_())])
    for kind in FILE_ACTIONS:
        if kind in actions.column_names:
            files = actions[kind].combine_chunks()
            has_flag = files.type.get_field_index("dataChange") >= 0
            flags = pc.fill_null(pc.struct_field(files, "dataChange"), True) if has_flag else pa.scalar(True)
            changes = pc.if_else(pc.is_valid(files), flags, changes)
    return changes


def _fields_of(*samples: str) -> pa.Schema | None:
    """Return the fields of some lines with only file actions; None: there are other actions or unknown fields.

    Most lines of a large commit have the same fields. For Arrow, searching for a missing field costs as much as reading
    a present one. So a schema of only these fields saves time.
    """
    found: dict[str, dict[str, pa.DataType]] = {}
    for sample in samples:
        try:
            ((kind, fields),) = decode_json(sample).items()
            known = found.setdefault(kind, {field: _FILE[kind][field] for field in _REQUIRED[kind]})
            known |= {
                field: _map_of(value) if field in _MAPS else _FILE[kind][field] for field, value in fields.items()
            }
        except (ValueError, KeyError, AttributeError):
            return None
    return pa.schema([(kind, pa.struct(list(fields.items()))) for kind, fields in found.items()])


def _map_of(values: Any) -> pa.DataType:
    return pa.struct([(name, pa.string()) for name in values]) if isinstance(values, dict) else _ANY


def _has_required_fields(actions: pa.Table) -> bool:
    """Return whether every file action has the fields without which the replay would ignore it silently."""
    return all(
        pc.struct_field(actions[kind], field).null_count == actions[kind].null_count
        for kind, fields in _REQUIRED.items()
        if kind in actions.column_names
        for field in fields
    )


def _read_exactly(path_of: Mapping[int, str], lines: pa.Table) -> pa.Table:
    rows = lines.select(UNREAD_LINES_SCHEMA.names).to_pylist()
    for row in rows:
        path, number = path_of[row["commit_version"]], row["line_number"]
        usual = _in_usual_form(path, number, row["line"].removesuffix("\n"))
        # Arrow does not read half of a character as Python does.
        forms = (f"{usual}\n",) if _has_half_a_character(row["line"]) else (row["line"], f"{usual}\n")
        for text in forms:
            actions = _regular_actions(pa.chunked_array([[text]], pa.string()), are_json=True)
            if actions is not None:
                row |= {"line": text, **actions.to_pylist()[0]}
                break
        else:
            raise CorruptLogError(path=path, line=number, reason=_what_is_wrong(usual))
    return pa.Table.from_pylist(rows, schema=LINES_SCHEMA)


def _has_half_a_character(line: str) -> bool:
    """Return whether a line that was read has a lone surrogate, which is in its statistics."""
    try:
        decode_json(line.removesuffix("\n"))
    except UnicodeEncodeError:
        return True
    return False


def _in_usual_form(path: str, number: int, line: str) -> str:
    """Return a line in a form that Arrow and Spark read alike: each key once, plain integers, no unknown actions."""
    known = known_action(path, number, line)
    usual = {name: _usual_fields(value) if name in FILE_ACTIONS else value for name, value in known.items()}
    return json_text(usual)


def _usual_fields(fields: Any) -> Any:
    return {name: _usual_field(name, value) for name, value in fields.items()} if isinstance(fields, dict) else fields


def _usual_field(name: str, value: Any) -> Any:
    if name == "deletionVector":
        return _usual_fields(value)
    if name == "stats" and isinstance(value, dict):
        return json_text(value)
    return value if name in _MAPS else whole_number(value)


def _what_is_wrong(line: str) -> str:
    """Return why a line in the usual form is not regular."""
    try:
        for name, value in decode_json(line).items():
            if name in _TYPED:
                _TYPED[name].from_json(value)
            elif not isinstance(value, dict):
                return f"{name}: expected an object, found {str(value)[:80]!r}"
    except ValueError as error:
        return str(error)
    return f"expected an action with fields of the protocol's types, found {line[:80]!r}"


def _no_utf8(path_of: Mapping[int, str], contents: Mapping[int, bytes], first_line: int) -> CorruptLogError:
    for version, content in contents.items():
        for number, line in enumerate(content.split(b"\n"), start=first_line):
            try:
                decode_utf8(path_of[version], number, line)
            except CorruptLogError as error:
                return error
    return CorruptLogError(path=path_of[next(iter(contents))], reason="more than 2 GiB of text")
