"""Parses lines of JSON with Arrow's reader, after checking that it reads them correctly.

Each text is a line with its line feed. Lines that are adjacent in memory are parsed without copying.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pa_json

from deltasnap_core.protocol.json_text import MAX_NESTING

BLANK = " \t\r"
"""White space that may surround the object of a line."""

# Arrow's reader crashes the process on a null after an object, and reads NaN as a number. These patterns also match
# inside strings, which is harmless: a match leads to an exact parse, not to an error.
_NULL_AFTER_OBJECT = r"\}[ \t\r]*null"
# Searched for first, because patterns with a fixed first letter are fast. `commitInfo` does not match.
_MAYBE_NO_NUMBER = ("NaN", "Inf[^o]")
_NO_NUMBER = r'(?:[^\\]"[ \t\r]*:|[,\[])[ \t\r]*-?(?:NaN|Inf)'
_BLOCK_BYTES = 4 << 20


def parse_lines(texts: pa.ChunkedArray, schema: pa.Schema, *, is_all: bool = False) -> pa.Table | None:
    """Return a row for each line, with the fields of a schema (no maps).

    texts:  `are_safe`, or known to be valid JSON.
    is_all: whether a line may have no other fields, at any depth; False: other fields are ignored.
    None: some line is not an object with fields of these types, has a duplicate key, or cannot be parsed by Arrow.

    Each line begins and ends with a bracket, and Arrow rejects `} {` within an object. So no object spans two lines,
    and if there are as many objects as lines, each line has one.
    """
    content = _content(texts)
    try:
        found = pa_json.read_json(
            pa.BufferReader(content),
            # For many lines, the caller parses several pieces in parallel.
            read_options=pa_json.ReadOptions(use_threads=False, block_size=max(_BLOCK_BYTES, _longest(texts) + 1)),
            parse_options=pa_json.ParseOptions(
                explicit_schema=schema, unexpected_field_behavior="error" if is_all else "ignore"
            ),
        )
    except (pa.ArrowException, UnicodeDecodeError):  # the error messages quote the text, perhaps cut within a character
        return None
    return found.select(schema.names) if found.num_rows == len(texts) else None


def parse_texts(texts: pa.StringArray, schema: pa.Schema) -> pa.Table | None:
    """Return a row for each text, as `parse_lines`. Texts are unchecked, and have no line feed at the end.

    None: as in `parse_lines`, or some text contains a line feed.
    """
    held = texts.buffers()[2]  # may include text outside of the slice: then the search is wasted, not wrong
    if held is not None and b"\n" in held.to_pybytes() and pc.any(pc.match_substring(texts, "\n")).as_py():
        return None
    lines = pa.chunked_array([pc.binary_join_element_wise(texts, "", "\n")])
    return parse_lines(lines, schema) if are_safe(lines) else None


def are_safe(texts: pa.ChunkedArray) -> bool:
    """Return whether all lines begin and end like an object, and have nothing that Arrow's reader reads incorrectly."""
    if not (_all(pc.starts_with(texts, "{")) and _all(pc.ends_with(texts, "}\n"))):
        trimmed = pc.ascii_trim(texts, BLANK + "\n")
        if not (_all(pc.starts_with(trimmed, "{")) and _all(pc.ends_with(trimmed, "}"))):
            return False
    content = _content(texts)
    if _occurs(_NULL_AFTER_OBJECT, content):
        return False
    if any(_occurs(pattern, content) for pattern in _MAYBE_NO_NUMBER) and _occurs(_NO_NUMBER, content):
        return False
    if _longest(texts) <= 2 * MAX_NESTING:  # each level of nesting takes two characters
        return True
    long = texts.filter(pc.greater(pc.binary_length(texts), 2 * MAX_NESTING))
    brackets = pc.add(pc.count_substring(long, "{"), pc.count_substring(long, "["))
    return not pc.any(pc.greater(brackets, MAX_NESTING)).as_py()


def _all(values: pa.ChunkedArray) -> bool:
    return bool(pc.all(values).as_py())


def _longest(texts: pa.ChunkedArray) -> int:
    return pc.max(pc.binary_length(texts)).as_py() or 0


def _occurs(pattern: str, content: pa.Buffer) -> bool:
    offsets = pa.py_buffer(np.array([0, content.size]))
    whole = pa.Array.from_buffers(pa.large_binary(), 1, [None, offsets, content])
    return bool(pc.match_substring_regex(whole, pattern)[0].as_py())


def _content(texts: pa.ChunkedArray) -> pa.Buffer:
    """Return lines as one text, without copying if they are one chunk."""
    pieces = [_values(chunk) for chunk in texts.chunks if len(chunk)]
    return pieces[0] if len(pieces) == 1 else pa.py_buffer(b"".join(pieces))


def _values(texts: pa.StringArray) -> pa.Buffer:
    _, offsets, values = texts.buffers()
    start, end = np.frombuffer(offsets, np.int32)[[texts.offset, texts.offset + len(texts)]]
    return values.slice(start, end - start)
