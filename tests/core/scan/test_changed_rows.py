"""Which rows of which files a commit changes, from its file actions. Without Spark."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from deltasnap_core.scan.changes.change_columns import DELETE
from deltasnap_core.scan.changes.changed_rows import changed_rows, file_actions
from tests.builders import LOG_PATH, TABLE_PATH

VECTOR = {"storageType": "u", "pathOrInlineDv": "ab^-aqEH.-t@S}K{vb[*k^", "sizeInBytes": 40, "cardinality": 1}
FILE = {"partitionValues": {}, "size": 1, "dataChange": True, "deletionVector": None}


@st.composite
def spellings(draw: st.DrawFn) -> str:
    """A spelling of the file `p a`: any character may be escaped, the path may be absolute."""
    name = "".join(draw(st.sampled_from([letter, f"%{ord(letter):02x}", f"%{ord(letter):02X}"])) for letter in "p a")
    root = draw(st.sampled_from(["", f"{TABLE_PATH}/", f"{TABLE_PATH.removeprefix('file://')}/"]))
    return root + name


@given(spellings(), st.sampled_from(["", f"{TABLE_PATH}/"]))
def test_a_new_vector_deletes_only_its_rows_in_any_spelling_of_the_path(added: str, root: str) -> None:
    removed = root + "p%20a"
    if added.startswith(("/", "file:")) != bool(root):  # a relative and an absolute path are two files
        added = root + added.rpartition("/")[2]
    rows: list[dict[str, Any]] = [
        {"commit_version": 1, "add": None, "remove": {**FILE, "path": removed}},
        {"commit_version": 1, "add": {**FILE, "path": added, "deletionVector": VECTOR}, "remove": None},
    ]
    found = changed_rows(file_actions(rows, log_path=LOG_PATH), lambda _: np.array([7]))
    assert [(each.change, list(each.only)) for each in found if each.only is not None] == [(DELETE, [7])]
    assert len(found) == 1
