"""Lines of JSON through Arrow's reader: which lines it may be given, and what it makes of them."""

from __future__ import annotations

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


def parsed(texts: pa.ChunkedArray, schema: pa.Schema, *, are_json: bool = False) -> pa.Table | None:
    """Return a row for each line with the fields of a schema (no maps), others passed over.

    are_json: whether each line is known to be an object of valid JSON.
    None: some line is no object with fields of these types, has a key twice, or is nothing for Arrow to read.

    As every line begins and ends with a bracket, and Arrow refuses `} {` within an object, no object goes over the end
    of a line; so with as many objects as lines there is one on each.
    """
    if not are_json and not _is_safe(texts):
        return None
    longest = pc.max(pc.binary_length(texts)).as_py() or 0
    try:
        found = pa_json.read_json(
            pa.BufferReader(_joined(texts)),
            # Who has many lines reads several pieces of them at once.
            read_options=pa_json.ReadOptions(use_threads=False, block_size=max(_BLOCK_BYTES, longest + 2)),
            parse_options=pa_json.ParseOptions(explicit_schema=schema, unexpected_field_behavior="ignore"),
        )
    except (pa.ArrowException, UnicodeDecodeError):  # its messages quote the text, cut anywhere
        return None
    return found.select(schema.names) if found.num_rows == len(texts) else None


def _is_safe(texts: pa.ChunkedArray) -> bool:
    trimmed = pc.ascii_trim(texts, BLANK)
    are_objects = pc.and_(pc.starts_with(trimmed, "{"), pc.ends_with(trimmed, "}"))
    if not pc.all(are_objects).as_py() or occurs(_NULL_AFTER_OBJECT, texts):
        return False
    if any(occurs(pattern, texts) for pattern in _MAYBE_NO_NUMBER) and occurs(_NO_NUMBER, texts):
        return False
    # Nesting takes two characters a level, so only long lines are looked at.
    long = texts.filter(pc.greater(pc.binary_length(texts), 2 * MOST_NESTING))
    brackets = pc.add(pc.count_substring(long, "{"), pc.count_substring(long, "["))
    return not pc.any(pc.greater(brackets, MOST_NESTING)).as_py()


def occurs(pattern: str, texts: pa.ChunkedArray) -> bool:
    """Return whether a regular expression matches somewhere in the lines."""
    return bool(pc.any(pc.match_substring_regex(texts, pattern)).as_py())


def _joined(texts: pa.ChunkedArray) -> pa.Buffer:
    pieces = []
    for chunk in texts.cast(pa.large_binary()).chunks:
        whole = pa.LargeListArray.from_arrays(pa.array([0, len(chunk)], pa.int64()), chunk)
        pieces.append(pc.binary_join(whole, pa.scalar(b"\n", pa.large_binary()))[0].as_buffer())
    return pieces[0] if len(pieces) == 1 else pa.py_buffer(b"\n".join(pieces))
