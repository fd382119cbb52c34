"""Lines of JSON through Arrow's reader: which lines it may be given, and what it makes of them.

Texts are lines with the line feed that ends each of them: what lies together in memory is read where it lies.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pa_json

from deltasnap_core.protocol.json_text import MOST_NESTING

BLANK = " \t\r"
"""White space that may stand around the object of a line."""

# A null beside an object ends the process; NaN it takes for a number. Both are also found inside strings, and are
# nothing to worry about then: whoever is found is read exactly, not refused.
_NULL_AFTER_OBJECT = r"\}[ \t\r]*null"
_MAYBE_NO_NUMBER = (
    "NaN",
    "Inf[^o]",
)  # looked for first: each is found by its first letter, and `commitInfo` is neither
_NO_NUMBER = r'(?:[^\\]"[ \t\r]*:|[,\[])[ \t\r]*-?(?:NaN|Inf)'
_BLOCK_BYTES = 4 << 20


def parsed(texts: pa.ChunkedArray, schema: pa.Schema, *, is_all: bool = False) -> pa.Table | None:
    """Return a row for each line with the fields of a schema (no maps).

    texts: `are_safe`, or known to be valid JSON. is_all: whether there may be no other fields, at any depth; else they
    are passed over.
    None: some line is no object with fields of these types, has a key twice, or is nothing for Arrow to read.

    As every line begins and ends with a bracket, and Arrow refuses `} {` within an object, no object goes over the end
    of a line; so with as many objects as lines there is one on each.
    """
    content = _content(texts)
    try:
        found = pa_json.read_json(
            pa.BufferReader(content),
            # Who has many lines reads several pieces of them at once.
            read_options=pa_json.ReadOptions(use_threads=False, block_size=max(_BLOCK_BYTES, _longest(texts) + 1)),
            parse_options=pa_json.ParseOptions(
                explicit_schema=schema, unexpected_field_behavior="error" if is_all else "ignore"
            ),
        )
    except (pa.ArrowException, UnicodeDecodeError):  # its messages quote the text, cut anywhere
        return None
    return found.select(schema.names) if found.num_rows == len(texts) else None


def parsed_texts(texts: pa.StringArray, schema: pa.Schema) -> pa.Table | None:
    """Return a row for each text, as `parsed` does; they may be anything, and have no line feeds of their own.

    None: as there, or some have a line feed.
    """
    held = texts.buffers()[2]  # perhaps with what a slice left out: a line feed is looked for in vain then
    if held is not None and b"\n" in held.to_pybytes() and pc.any(pc.match_substring(texts, "\n")).as_py():
        return None
    lines = pa.chunked_array([pc.binary_join_element_wise(texts, "", "\n")])
    return parsed(lines, schema) if are_safe(lines) else None


def are_safe(texts: pa.ChunkedArray) -> bool:
    """Return whether lines begin and end as an object does, with nothing that Arrow's reader gets wrong."""
    if not (_all(pc.starts_with(texts, "{")) and _all(pc.ends_with(texts, "}\n"))):
        trimmed = pc.ascii_trim(texts, BLANK + "\n")
        if not (_all(pc.starts_with(trimmed, "{")) and _all(pc.ends_with(trimmed, "}"))):
            return False
    content = _content(texts)
    if _occurs(_NULL_AFTER_OBJECT, content):
        return False
    if any(_occurs(pattern, content) for pattern in _MAYBE_NO_NUMBER) and _occurs(_NO_NUMBER, content):
        return False
    if _longest(texts) <= 2 * MOST_NESTING:  # nesting takes two characters a level
        return True
    long = texts.filter(pc.greater(pc.binary_length(texts), 2 * MOST_NESTING))
    brackets = pc.add(pc.count_substring(long, "{"), pc.count_substring(long, "["))
    return not pc.any(pc.greater(brackets, MOST_NESTING)).as_py()


def _all(values: pa.ChunkedArray) -> bool:
    return bool(pc.all(values).as_py())


def _longest(texts: pa.ChunkedArray) -> int:
    return pc.max(pc.binary_length(texts)).as_py() or 0


def _occurs(pattern: str, content: pa.Buffer) -> bool:
    """Return whether a regular expression matches somewhere in a text."""
    offsets = pa.py_buffer(np.array([0, content.size]))
    whole = pa.Array.from_buffers(pa.large_binary(), 1, [None, offsets, content])
    return bool(pc.match_substring_regex(whole, pattern)[0].as_py())


def _content(texts: pa.ChunkedArray) -> pa.Buffer:
    """Return lines as one text, where they lie."""
    pieces = [_values(chunk) for chunk in texts.chunks if len(chunk)]
    return pieces[0] if len(pieces) == 1 else pa.py_buffer(b"".join(pieces))


def _values(texts: pa.StringArray) -> pa.Buffer:
    _, offsets, values = texts.buffers()
    start, end = np.frombuffer(offsets, np.int32)[[texts.offset, texts.offset + len(texts)]]
    return values.slice(start, end - start)
