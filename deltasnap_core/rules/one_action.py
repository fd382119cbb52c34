"""Checks that a row contains at most one file action: an `add` or a `remove`, never both. In SQL and in Arrow.

Source: PROTOCOL.md, Actions; Checkpoint Schema.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

ONE_ACTION = "at most one action in a row"


def check_one_action(added: pa.Array, removed: pa.Array | None) -> None:
    """Raise ValueError if a row has both an `add` and a `remove`. added, removed: their paths; None: no such column."""
    if removed is None or added.null_count == len(added) or removed.null_count == len(removed):
        return
    if pc.any(pc.and_(added.is_valid(), removed.is_valid())).as_py():
        raise ValueError(f"expected {ONE_ACTION}, found add and remove")


def one_action_sql() -> str:
    """Return SQL that is true, or raises an error if a row has both an `add` and a `remove`."""
    # The message depends on a column: an engine may evaluate a constant expression although no row needs it.
    problem = f"raise_error(concat('expected {ONE_ACTION}, found add and remove', substring(add.path, 1, 0)))"
    return f"if(add.path is not null and remove.path is not null, cast({problem} as boolean), true)"
