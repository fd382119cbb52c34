"""Arrow tables as DataFrames."""

from __future__ import annotations

from typing import Any, cast

import pyarrow as pa

from deltasnap_core.replay.spark.session.local_rows import arrow_rows


class Session:
    """Returns the table that it gets."""

    def createDataFrame(self, rows: pa.Table) -> pa.Table:  # noqa: N802
        return rows


def test_spark_gets_no_empty_chunks_after_which_it_loses_rows() -> None:
    rows = pa.table({"a": pa.chunked_array([[1, 2], [], [3]], pa.int64())})
    given: Any = arrow_rows(cast("Any", Session()), rows)
    assert [batch.num_rows for batch in given.to_batches()] == [2, 1]
    assert given.equals(rows)
