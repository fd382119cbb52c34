"""Rows in Arrow as a DataFrame of pandas."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

if TYPE_CHECKING:
    import pandas as pd


def rows_in_pandas(rows: pa.Table) -> pd.DataFrame:
    """Return rows for pandas. Integers with nulls have a nullable type, such as Int64, because floats round them.

    Dates and decimals are Python's. Structs and maps are dicts; maps are lists of pairs if a key of some map is nested.
    """
    maps = None if any(_has_nested_keys(field.type) for field in rows.schema) else "lossy"
    frame: pd.DataFrame = rows.to_pandas(maps_as_pydicts=maps, integer_object_nulls=True)
    for place, field in enumerate(rows.schema):  # several columns may have one name
        if pa.types.is_integer(field.type) and rows.column(place).null_count:
            frame.isetitem(place, frame.iloc[:, place].astype(str(field.type).capitalize()))
    return frame


def _has_nested_keys(kind: pa.DataType) -> bool:
    if pa.types.is_map(kind) and pa.types.is_nested(kind.key_type):
        return True
    return any(_has_nested_keys(kind.field(place).type) for place in range(kind.num_fields))
