"""The one reader of lines of actions: it decides which action a line holds, and everything else goes by its word.

Whole batches go through Arrow's JSON reader, with a schema of all that the replay reads. What that finds regular, Spark
reads the same; anything else is parsed again line by line, to be written anew in the usual form or to be refused.

| a line with | here | because |
|-|-|-|
| escaped characters in keys and strings, any white space | read | RFC 8259 |
| an unknown action or field, `"add": null` | passed over | PROTOCOL.md, Requirements for Readers |
| a key in other letters (`ADD`) | an unknown one | RFC 8259; Spark compares exactly too |
| an integer as `12.0`, `1e3` (below 2^53) | read | RFC 8259; Jackson and delta-kernel-rs read it |
| `stats` as an object | read as its text | Spark reads it so |
| a key twice in one object | the last one counts | Jackson (Delta on Spark) and delta-kernel-rs do so |
| several objects, two actions in one object | CorruptLogError | a line is one action; readers differ on which |
| no object; text before or after it; a byte order mark | CorruptLogError | RFC 8259 |
| NaN, Infinity, raw control characters, single quotes | CorruptLogError | RFC 8259 |
| no UTF-8, a lone surrogate (`\\ud800`) | CorruptLogError | no UTF-8 text can hold it |
| an integer out of its 64 (or 32) bits, or with a fraction | CorruptLogError | PROTOCOL.md, Actions |
| a field of another type, no `path`, an `add` without `size` | CorruptLogError | PROTOCOL.md, Actions |
| more than 500 levels of nesting, more than MOST_LINE_BYTES | CorruptLogError | what parsers and memory bear |

NUL and U+10FFFF may stand escaped in strings. NaN in a field that nobody reads, after a key that ends with a
backslash, is passed over. Only a line feed ends a line: U+2028 and its kin may stand inside a JSON string.
Source: PROTOCOL.md, Delta Log Entries; Actions.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pa_json

from deltasnap_core.errors import CorruptLogError
from deltasnap_core.protocol.actions import AddFile, RemoveFile
from deltasnap_core.protocol.json_fields import json_text, whole_number
from deltasnap_core.protocol.json_text import MOST_NESTING, decode_json
from deltasnap_core.protocol.table_features import MANIFEST_COMMIT_ACTION

MOST_LINE_BYTES = 32 << 20
"""A longer line is refused: no writer makes one, and it would have to be held in memory several times over."""

FILE_ACTIONS = ("add", "remove")
OTHER_ACTIONS = (
    "protocol",
    "metaData",
    "txn",
    "domainMetadata",
    "commitInfo",
    "sidecar",
    "checkpointMetadata",
    MANIFEST_COMMIT_ACTION,
)

LINES_SCHEMA = pa.schema(
    [
        pa.field("commit_version", pa.int64(), nullable=False),
        pa.field("line_number", pa.int32(), nullable=False),
        pa.field("line", pa.string(), nullable=False),
        pa.field("action", pa.string()),
    ]
)
"""A line of actions: its version, its number from 1, its text, the action it holds (null: none that we know)."""

_ANY = pa.struct([])
_MAPS = ("partitionValues", "tags")  # Arrow reads no maps: only that they are objects
_DELETION_VECTOR = pa.struct(
    [
        ("storageType", pa.string()),
        ("pathOrInlineDv", pa.string()),
        ("offset", pa.int32()),
        ("sizeInBytes", pa.int32()),
        ("cardinality", pa.int64()),
        ("maxRowIndex", pa.int64()),
    ]
)
_OF_BOTH = [
    ("path", pa.string()),
    ("partitionValues", _ANY),
    ("size", pa.int64()),
    ("dataChange", pa.bool_()),
    ("stats", pa.string()),
    ("tags", _ANY),
    ("deletionVector", _DELETION_VECTOR),
    ("baseRowId", pa.int64()),
    ("defaultRowCommitVersion", pa.int64()),
]
_ADD = pa.struct([*_OF_BOTH, ("modificationTime", pa.int64()), ("clusteringProvider", pa.string())])
_REMOVE = pa.struct([*_OF_BOTH, ("deletionTimestamp", pa.int64()), ("extendedFileMetadata", pa.bool_())])
_SCHEMA = pa.schema([("add", _ADD), ("remove", _REMOVE), *((name, _ANY) for name in OTHER_ACTIONS)])
_REQUIRED = {"add": ("path", "size"), "remove": ("path",)}
_TYPED: Mapping[str, type[AddFile] | type[RemoveFile]] = {"add": AddFile, "remove": RemoveFile}

_BLANK = " \t\r"
# What Arrow's reader is not given: a null beside an object ends the process; NaN it takes for a number. Both are also
# found inside strings, and are nothing to worry about then: whoever is found is read exactly, not refused.
_NOT_FOR_ARROW = r'\}[ \t\r]*null|(?:[^\\]"[ \t\r]*:|[,\[])[ \t\r]*-?(?:NaN|Inf)'
_LINES_TO_READ_EXACTLY = 256
_BLOCK_BYTES = 1 << 20


def read_lines(path: str, version: int, content: bytes, *, first_line: int = 1) -> pa.Table:
    """Return the lines of a file, or of a piece of it, that are not blank (LINES_SCHEMA), in their order.

    first_line: the number of its first line.
    Errors: CorruptLogError naming file and line.
    """
    return judged({version: path}, split_lines(path, version, content, first_line=first_line))


def split_lines(path: str, version: int, content: bytes, *, first_line: int = 1) -> pa.Table:
    """Return the lines that are not blank without having looked into them: to be `judged`, with those of other files.

    Errors: CorruptLogError naming file and line where it is no UTF-8.
    """
    split = pc.split_pattern(pa.array([content], pa.large_binary()), b"\n").values
    try:
        text = split.cast(pa.string())
    except pa.ArrowInvalid as error:
        raise _no_utf8(path, first_line, content) from error
    lengths = pc.binary_length(split)
    if len(split) and pc.max(lengths).as_py() > MOST_LINE_BYTES:
        number = first_line + pc.index(pc.greater(lengths, MOST_LINE_BYTES), True).as_py()
        raise too_long(path, number)
    columns = {
        "commit_version": pa.repeat(pa.scalar(version, pa.int64()), len(text)),
        "line_number": pa.array(range(first_line, first_line + len(text)), pa.int32()),
        "line": text,
        "action": pa.nulls(len(text), pa.string()),
    }
    lines = pa.table(columns, schema=LINES_SCHEMA)
    return lines.filter(pc.greater(pc.binary_length(pc.ascii_ltrim(text, _BLANK)), 0))


def judged(path_of: Mapping[int, str], lines: pa.Table) -> pa.Table:
    """Return the lines with their actions; those of an unusual form are written in the usual one.

    path_of: the file of each version.
    Errors: CorruptLogError naming file and line.
    """
    if not lines.num_rows:
        return lines
    actions = _regular_actions(lines["line"])
    if actions is not None:
        return lines.set_column(3, LINES_SCHEMA.field("action"), actions)
    if lines.num_rows <= _LINES_TO_READ_EXACTLY:
        return _read_exactly(path_of, lines)
    middle = lines.num_rows // 2
    return pa.concat_tables([judged(path_of, lines.slice(0, middle)), judged(path_of, lines.slice(middle))])


def lines_with(lines: pa.Table, *actions: str) -> pa.Table:
    """Return the lines (LINES_SCHEMA) that hold one of these actions."""
    return lines.filter(pc.is_in(lines["action"], pa.array(actions)))


def structs(lines: pa.Table, schema: pa.Schema) -> pa.Table:
    """Return commit_version, line_number and the fields in a schema (no maps) of the actions of `judged` lines.

    It is the same parser that judged them.
    """
    if not lines.num_rows:
        parsed = schema.empty_table()
    else:
        parsed = _parsed(lines["line"], schema).select(schema.names)
    for index, name in enumerate(("commit_version", "line_number")):
        parsed = parsed.add_column(index, LINES_SCHEMA.field(name), lines[name])
    return parsed


def action_at(path: str, number: int, line: str) -> dict[str, Any]:
    """Return the decoded object of a line. Errors: CorruptLogError naming file and line."""
    try:
        value = decode_json(line)
    except ValueError as error:
        raise CorruptLogError(path=path, line=number, reason=f"expected a line of JSON: {error}") from error
    if not isinstance(value, dict):
        raise CorruptLogError(path=path, line=number, reason=f"expected a JSON object, found {line[:80]!r}")
    return value


def too_long(path: str, number: int) -> CorruptLogError:
    """Return the error of a line that is longer than a line may be."""
    return CorruptLogError(path=path, line=number, reason=f"expected a line of at most {MOST_LINE_BYTES} bytes")


def utf8(path: str, number: int, line: bytes) -> str:
    """Return the text of a line. Errors: CorruptLogError naming file and line."""
    try:
        return line.decode()
    except UnicodeDecodeError as error:
        raise CorruptLogError(path=path, line=number, reason=f"expected UTF-8, found {error}") from error


def actions_in(path: str, number: int, line: str) -> dict[str, Any]:
    """Return the decoded action of a line by its name: one, or none that we know. Its fields are not looked at.

    Errors: CorruptLogError naming file and line.
    """
    values = action_at(path, number, line)
    known = {name: values[name] for name in _SCHEMA.names if values.get(name) is not None}
    if len(known) > 1:
        raise CorruptLogError(path=path, line=number, reason=f"expected one action, found {' and '.join(known)}")
    return known


def _regular_actions(texts: pa.ChunkedArray) -> pa.ChunkedArray | None:
    """Return the action of each line, null for none that we know. None: some line wants to be read exactly.

    As every line begins and ends with a bracket, and Arrow refuses `} {` within an object, no object goes over the end
    of a line; so with as many objects as lines there is one on each.
    """
    return _actions(texts) if _is_safe_for_arrow(texts) else None


def _actions(texts: pa.ChunkedArray) -> pa.ChunkedArray | None:
    try:
        parsed = _parsed(texts, _SCHEMA)
    except (pa.ArrowException, UnicodeDecodeError):  # its messages quote the text, cut anywhere
        return None
    if parsed.num_rows != len(texts):
        return None
    actions: pa.ChunkedArray = pa.chunked_array([pa.nulls(parsed.num_rows, pa.string())])
    found = 0
    for name in _SCHEMA.names:
        column = parsed[name]
        if column.null_count < parsed.num_rows:
            found += parsed.num_rows - column.null_count
            actions = pc.if_else(pc.is_valid(column), name, actions)
    is_one_each = found == parsed.num_rows - actions.null_count
    return actions if is_one_each and _has_required_fields(parsed) else None


def _is_safe_for_arrow(texts: pa.ChunkedArray) -> bool:
    trimmed = pc.ascii_trim(texts, _BLANK)
    are_objects = pc.and_(pc.starts_with(trimmed, "{"), pc.ends_with(trimmed, "}"))
    if not pc.all(are_objects).as_py() or pc.any(pc.match_substring_regex(texts, _NOT_FOR_ARROW)).as_py():
        return False
    # Nesting takes two characters a level, so only long lines are looked at.
    long = texts.filter(pc.greater(pc.binary_length(texts), 2 * MOST_NESTING))
    brackets = pc.add(pc.count_substring(long, "{"), pc.count_substring(long, "["))
    return not pc.any(pc.greater(brackets, MOST_NESTING)).as_py()


def _parsed(texts: pa.ChunkedArray, schema: pa.Schema) -> pa.Table:
    joined = _joined(texts)
    block_size = max(_BLOCK_BYTES, pc.max(pc.binary_length(texts)).as_py() + 2)
    return pa_json.read_json(
        pa.BufferReader(joined),
        # Threads cost more than they give where there is one block.
        read_options=pa_json.ReadOptions(use_threads=joined.size > block_size, block_size=block_size),
        parse_options=pa_json.ParseOptions(explicit_schema=schema, unexpected_field_behavior="ignore"),
    )


def _joined(texts: pa.ChunkedArray) -> pa.Buffer:
    pieces = []
    for chunk in texts.cast(pa.large_binary()).chunks:
        whole = pa.LargeListArray.from_arrays(pa.array([0, len(chunk)], pa.int64()), chunk)
        pieces.append(pc.binary_join(whole, pa.scalar(b"\n", pa.large_binary()))[0].as_buffer())
    return pieces[0] if len(pieces) == 1 else pa.py_buffer(b"\n".join(pieces))


def _has_required_fields(actions: pa.Table) -> bool:
    """Whether no file action lacks a field without which the replay would pass it over in silence."""
    return all(
        pc.struct_field(actions[kind], field).null_count == actions[kind].null_count
        for kind, fields in _REQUIRED.items()
        for field in fields
    )


def _read_exactly(path_of: Mapping[int, str], lines: pa.Table) -> pa.Table:
    rows = lines.to_pylist()
    for row in rows:
        path, number = path_of[row["commit_version"]], row["line_number"]
        usual = _in_usual_form(path, number, row["line"])
        for text in (row["line"], usual):
            actions = _actions(pa.chunked_array([[text]], pa.string()))
            if actions is not None:
                row |= {"line": text, "action": actions[0].as_py()}
                break
        else:
            raise CorruptLogError(path=path, line=number, reason=_what_is_wrong(usual))
    return pa.Table.from_pylist(rows, schema=LINES_SCHEMA)


def _in_usual_form(path: str, number: int, line: str) -> str:
    """Return a line as one that Arrow and Spark read alike: each key once, integers as such, no unknown actions."""
    known = actions_in(path, number, line)
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
    """Return what is wrong with a line in the usual form that is not regular."""
    try:
        for name, value in decode_json(line).items():
            if name in _TYPED:
                _TYPED[name].from_json(value)
            elif not isinstance(value, dict):
                return f"{name}: expected an object, found {str(value)[:80]!r}"
    except ValueError as error:
        return str(error)
    return f"expected an action with fields of the protocol's types, found {line[:80]!r}"


def _no_utf8(path: str, first_line: int, content: bytes) -> CorruptLogError:
    for number, line in enumerate(content.split(b"\n"), start=first_line):
        try:
            utf8(path, number, line)
        except CorruptLogError as error:
            return error
    return CorruptLogError(path=path, reason="more text than can be held")
