"""By what a path of the log is known: made canonical, and decoded once. In SQL, and in Arrow. No Spark.

An absolute path without a scheme is one of the table's file system; `file:///x` is `file:/x`. The key is the path
decoded once (`+` stays; one that is no valid encoding is its own key), so that two spellings of one path are one file.
Source: PROTOCOL.md, Add File and Remove File; Action Reconciliation.
"""

from __future__ import annotations

from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc

_FILE_URL = "file:///"
_ESCAPE = "%[0-9A-Fa-f]{2}"


def canonical_path_sql(raw: str, log_path: str) -> str:
    """Return SQL for the canonical path of a path as SQL."""
    root = _file_system_of(log_path).replace("\\", "\\\\").replace("'", "\\'")
    return (
        f"case when startswith({raw}, '/') then concat('{root}', {raw})"
        f" when startswith({raw}, '{_FILE_URL}') then concat('file:', substring({raw}, {len(_FILE_URL)}))"
        f" else {raw} end"
    )


def path_key_sql(raw: str, log_path: str) -> str:
    """Return SQL for the key of a path as SQL."""
    path = canonical_path_sql(raw, log_path)
    # url_decode takes `+` for a space.
    decoded = f"coalesce(try_url_decode(replace({path}, '+', '%2B')), {path})"
    return f"case when contains({raw}, '%') then {decoded} else {path} end"


def canonical_paths(paths: pa.StringArray, log_path: str) -> pa.StringArray:
    """Return the canonical paths of paths: what `canonical_path_sql` gives."""
    found = paths
    is_absolute, is_url = pc.starts_with(paths, "/"), pc.starts_with(paths, _FILE_URL)
    if pc.any(is_absolute).as_py():
        root = pa.scalar(_file_system_of(log_path), pa.string())
        found = pc.if_else(is_absolute, pc.binary_join_element_wise(root, found, ""), found)
    if pc.any(is_url).as_py():
        rest = pc.utf8_slice_codeunits(paths, len(_FILE_URL) - 1)
        found = pc.if_else(is_url, pc.binary_join_element_wise("file:", rest, ""), found)
    return found


def path_keys(paths: pa.StringArray, log_path: str) -> pa.StringArray:
    """Return the keys of paths: what `path_key_sql` gives."""
    keys = canonical_paths(paths, log_path)
    is_encoded = pc.match_substring(paths, "%") if _has_percent(paths) else pa.array([False])
    if pc.any(is_encoded).as_py():
        keys = pc.replace_with_mask(keys, is_encoded, _decoded(keys.filter(is_encoded)))
    return keys


def _has_percent(paths: pa.StringArray) -> bool:
    text = paths.buffers()[2]  # perhaps with what a slice left out: then it is looked for in vain
    return text is not None and b"%" in text.to_pybytes()


def _decoded(paths: pa.StringArray) -> pa.StringArray:
    """Return paths decoded once: each escape that occurs is replaced everywhere, that of `%` itself last."""
    is_valid = pc.equal(pc.count_substring(paths, "%"), pc.count_substring_regex(paths, _ESCAPE))
    after = pc.binary_slice(pc.split_pattern(paths, "%").flatten().cast(pa.binary()), 0, 2).cast(pa.string())
    escapes = {text for text in pc.unique(after).to_pylist() if len(text) == 2 and _is_hex(text)}
    found = paths.cast(pa.binary())
    for digits in sorted(escapes, key=lambda text: text == "25"):
        found = pc.replace_substring(found, b"%" + digits.encode(), bytes.fromhex(digits))
    try:
        decoded = found.cast(pa.string())
    except pa.ArrowInvalid:  # some escapes are of no UTF-8
        decoded = pa.array([unquote(path) for path in paths.to_pylist()], pa.string())
    return pc.if_else(is_valid, decoded, paths)


def _is_hex(text: str) -> bool:
    return all(character in "0123456789abcdefABCDEF" for character in text)


def _file_system_of(log_path: str) -> str:
    scheme, _, rest = log_path.partition("://")
    return "file:" if scheme == "file" else f"{scheme}://{rest.split('/', 1)[0]}"
