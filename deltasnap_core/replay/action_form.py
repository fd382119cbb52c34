"""The forms in which file actions are replayed: whole, or no more of them than what is counted."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import DataFrame
from pyspark.sql import functions as F


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionForm:
    """What the replay must know of the columns of a frame of file actions.

    columns:    all of them. key: those that tell logical files apart.
    is_add, deleted_at: SQL: whether a row is a live file; when (ms) a tombstone was made, null for a live file.
    is_same:    SQL: whether a row is of the logical file of another frame, whose key columns begin with `other_`.
    """

    columns: tuple[str, ...]
    key: tuple[str, ...]
    is_add: str
    deleted_at: str
    is_same: str

    def join(self, files: DataFrame, changed: DataFrame, *others: str, how: str, broadcast: bool) -> DataFrame:
        """Join files with the logical files of another frame; `how` as for DataFrame.join.

        others: more to keep of the other frame. broadcast: send its keys to every task, so that no file is shuffled.
        """
        keys = changed.selectExpr(*(f"{name} as other_{name}" for name in self.key), *others)
        return files.join(F.broadcast(keys) if broadcast else keys, F.expr(self.is_same), how)
