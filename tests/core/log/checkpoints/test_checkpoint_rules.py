"""A row of a checkpoint has one action: two are an error, detected by the footer or by the rows."""

from __future__ import annotations

from io import BytesIO
from itertools import combinations
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import assume, given, strategies as st

from deltasnap_core.errors import CorruptLogError
from deltasnap_core.log.checkpoints.checkpoint_contents import CheckpointContents, open_checkpoint
from deltasnap_core.log.checkpoints.checkpoint_rules import check_columns
from deltasnap_core.log.commits.commit_batch import EMPTY_BATCH
from deltasnap_core.log.listing.checkpoint_provider import CheckpointProvider
from deltasnap_core.log.non_file_actions import load_non_file_actions
from deltasnap_core.protocol.log_files.file_names import CheckpointKind
from deltasnap_core.replay.driver.checkpoint_measures import map_measures
from deltasnap_core.replay.driver.full_actions import full_actions
from tests.builders import LOG_PATH, MemoryLogStore, add, checkpoint, metadata, protocol, remove

KINDS: dict[str, dict[str, Any]] = {
    **add("a.parquet", size=1),
    **remove("b.parquet"),
    **metadata(),
    **protocol(),
    "txn": {"appId": "x", "version": 1},
    "domainMetadata": {"domain": "d", "configuration": "{}", "removed": False},
    "checkpointMetadata": {"version": 3},
}
PAIRS = [pytest.param(one, other, id=f"{one}+{other}") for one, other in combinations(KINDS, 2)]
_ACTIONS = [{}, *({kind: values} for kind, values in KINDS.items())]
ROWS = st.lists(st.sampled_from(_ACTIONS), min_size=1, max_size=12)


def _type_of(value: Any) -> pa.DataType:
    if isinstance(value, dict):
        is_map = not value or "provider" in value
        fields = [(name, _type_of(each)) for name, each in value.items()]
        return pa.map_(pa.string(), pa.string()) if is_map and not fields else pa.struct(fields)
    return pa.array([value]).type if value not in (None, []) else pa.list_(pa.string()) if value == [] else pa.string()


SCHEMA = pa.schema([(kind, _type_of(values)) for kind, values in KINDS.items()])


def parquet(rows: list[dict[str, Any]], **options: Any) -> bytes:
    sink = BytesIO()
    pq.write_table(pa.Table.from_pylist(rows, schema=SCHEMA), sink, **options)
    return sink.getvalue()


def opened(store: MemoryLogStore, data: bytes) -> CheckpointContents:
    """Read the footer of a checkpoint."""
    file = store.put(checkpoint(3)[0].name, data)
    provider = CheckpointProvider(version=3, files=(file,), kind=CheckpointKind.CLASSIC, format="parquet")
    return open_checkpoint(store, provider, LOG_PATH)


def read(data: bytes) -> tuple[int, int]:
    """Read all actions of a checkpoint like the driver. Return the number of file actions and of others."""
    store = MemoryLogStore()
    contents = opened(store, data)
    found = load_non_file_actions(store, contents, EMPTY_BATCH)
    others = [found.protocol, found.metadata, *found.transactions, *found.domains]
    files = sum(map_measures(store, contents, lambda rows: rows.num_rows))
    return files, sum(other is not None for other in others)


@pytest.mark.parametrize(
    ("field", "named"),
    [
        (pa.field("deletionvector", pa.struct([("storageType", pa.string())])), "add.deletionVector, found add.dele"),
        (
            pa.field("deletionVector", pa.struct([("Offset", pa.int32())])),
            "deletionVector.offset, found deletionVector.O",
        ),
        (pa.field("Stats", pa.string()), "add.stats, found add.Stats"),
    ],
)
def test_field_with_the_name_of_a_known_one_in_another_case_is_named(field: pa.Field, named: str) -> None:
    add = pa.struct([("path", pa.string()), ("size", pa.int64()), field])
    sink = BytesIO()
    pq.write_table(pa.table({"add": pa.array([{"path": "a", "size": 1}], add)}), sink)
    with pytest.raises(CorruptLogError, match=f"expected {named}"):
        read(sink.getvalue())


@pytest.mark.parametrize(("blanks", "statistics"), [(0, True), (3, True), (0, False)])
@pytest.mark.parametrize(("one", "other"), PAIRS)
def test_row_with_two_actions_raises_an_error_that_names_the_file(
    one: str, other: str, blanks: int, statistics: bool
) -> None:
    rows = [add("c"), {one: KINDS[one], other: KINDS[other]}, *[{}] * blanks]
    with pytest.raises(CorruptLogError, match="at most one action in a row") as caught:
        read(parquet(rows, write_statistics=statistics))
    assert caught.value.path == f"{LOG_PATH}/{checkpoint(3)[0].name}"


@pytest.mark.parametrize(("group", "rows_a_group"), [(0, 2), (1, 1)])
def test_more_actions_than_rows_are_found_in_the_footer(group: int, rows_a_group: int) -> None:
    data = parquet([add("c"), {**add("a"), **remove("b")}], row_group_size=rows_a_group)
    found = f"found {rows_a_group + 1} actions in {rows_a_group} rows of row group {group}"
    with pytest.raises(CorruptLogError, match=found):
        opened(MemoryLogStore(), data)


def test_add_without_any_required_field_is_found_in_the_footer() -> None:
    data = parquet([add("c"), {"add": {"modificationTime": 1}}])
    with pytest.raises(CorruptLogError, match=r"expected add\.(path|size) in each add, found null"):
        opened(MemoryLogStore(), data)


@pytest.mark.slow
@given(rows=ROWS, rows_a_group=st.integers(1, 5), statistics=st.booleans())
def test_rows_of_one_action_or_none_are_read(rows: list[dict[str, Any]], rows_a_group: int, statistics: bool) -> None:
    kinds = [kind for row in rows for kind in row]
    assume(all(kinds.count(kind) < 2 for kind in ("protocol", "metaData", "checkpointMetadata")))
    others = {kind for kind in kinds if kind in ("protocol", "metaData", "txn", "domainMetadata")}
    found = read(parquet(rows, row_group_size=rows_a_group, write_statistics=statistics))
    assert found == (kinds.count("add") + kinds.count("remove"), len(others))


def test_whole_rows_with_two_file_actions_are_an_error() -> None:
    rows = pa.Table.from_pylist([{}, {"add": KINDS["add"], "remove": KINDS["remove"]}], schema=SCHEMA)
    with pytest.raises(ValueError, match="at most one action in a row"):
        full_actions(rows)


@pytest.mark.parametrize(
    ("column", "field"),
    [
        ("add", "path"),
        ("add", "size"),
        ("add", "modificationTime"),
        ("add", "deletionVector"),
        ("add", "stats_parsed"),
        ("remove", "path"),
        ("remove", "deletionTimestamp"),
        ("remove", "deletionVector"),
        ("sidecar", "path"),
    ],
)
def test_field_of_another_type_is_an_error_that_names_it(column: str, field: str) -> None:
    schema = pa.schema([(column, pa.struct([(field, pa.list_(pa.bool_()))]))])
    with pytest.raises(CorruptLogError, match=rf"expected {column}\.{field} to be \w+, found list<"):
        check_columns("/t", schema)
