"""Which commits change data: the rule, and the last one of a log."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from deltasnap_core import TableLog
from deltasnap_core.log.commits import commit_batch
from deltasnap_core.log.commits.commit_reader import read_commits
from deltasnap_core.log.commits.data_changes import UNKNOWN_SCHEMA, data_changes
from tests.builders import MemoryLogStore, add, commit_info, metadata, protocol, remove, write_log

Action = dict[str, Any]
SCHEMA = metadata()["metaData"]["schemaString"]
ID = {"name": "id", "type": "long", "nullable": True, "metadata": {}}


def schema(*fields: Action) -> Action:
    """A metaData action with these fields."""
    return metadata(schemaString=json.dumps({"type": "struct", "fields": fields}))


def without_flag(action: Action) -> Action:
    ((kind, fields),) = action.items()
    return {kind: {name: value for name, value in fields.items() if name != "dataChange"}}


COMMITS: dict[str, tuple[list[Action], bool]] = {
    "append": ([commit_info(), add("a")], True),
    "delete": ([remove("a")], True),
    "OPTIMIZE": ([remove("a", dataChange=False), add("b", dataChange=False)], False),
    "one file with new rows among rearranged ones": ([remove("a", dataChange=False), add("b")], True),
    "no dataChange": ([without_flag(add("a"))], True),
    "no dataChange beside one that is false": ([add("a", dataChange=False), without_flag(remove("b"))], True),
    "dataChange is null": ([add("a", dataChange=None)], True),
    "VACUUM START": ([commit_info("VACUUM START")], False),
    "nothing": ([], False),
    "other properties": ([metadata(configuration={"a": "1"})], False),
    "another protocol": ([protocol(3, 7, readerFeatures=[], writerFeatures=[])], False),
    "a transaction": ([{"txn": {"appId": "a", "version": 1}}], False),
    "change data of a removed file": ([{"cdc": {"path": "c", "partitionValues": {}, "size": 1}}], False),
    "the same schema in another spelling": ([metadata(schemaString=json.dumps(json.loads(SCHEMA), indent=1))], False),
    "another column": ([schema(ID, {**ID, "name": "more"})], True),
    "type widening": ([schema({**ID, "type": "double"})], True),
    "column mapping": ([schema({**ID, "metadata": {"delta.columnMapping.id": 1}})], True),
    "a schema that is not JSON": ([metadata(schemaString="nope")], True),
    "two metaData actions, the last with the same schema": ([schema({**ID, "type": "double"}), metadata()], False),
}


@pytest.mark.parametrize("is_large", [False, True], ids=["held", "streamed"])
@pytest.mark.parametrize("name", COMMITS)
def test_commit_changes_data_by_files_or_schema(name: str, is_large: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    actions, expected = COMMITS[name]
    monkeypatch.setattr(commit_batch, "LARGE_COMMIT_BYTES", 1 if is_large else 1 << 20)
    store = MemoryLogStore()
    batch = read_commits(store, [store.put_commit(7, *actions), store.put_commit(8, add("z", dataChange=False))])
    assert data_changes(batch, SCHEMA)[7] is expected
    assert data_changes(batch, SCHEMA)[8] is False


def test_schema_that_was_not_read_leaves_open_whether_it_changed() -> None:
    store = MemoryLogStore()
    files = [
        store.put_commit(5, metadata()),
        store.put_commit(6, metadata()),
        store.put_commit(7, metadata(), add("a")),
    ]
    assert data_changes(read_commits(store, files), UNKNOWN_SCHEMA) == {5: None, 6: False, 7: True}
    assert data_changes(read_commits(store, files), None) == {5: True, 6: False, 7: True}


def test_commits_of_deltalake_that_change_data(tmp_path: Path) -> None:
    for value in range(3):
        write_deltalake(tmp_path, pa.table({"id": [value]}), mode="append")
    table, log = DeltaTable(tmp_path), TableLog.for_path(tmp_path)

    def last_change() -> tuple[int, int | None]:
        listing = log.list()
        latest = listing.latest_version or 0
        return latest, log.last_data_change(listing, latest)

    table.optimize.compact()
    assert last_change() == (3, 2)
    table.alter.set_table_properties({"delta.logRetentionDuration": "interval 1 day"})
    assert last_change() == (4, 2)
    table.restore(0)
    assert last_change() == (5, 5)
    write_deltalake(tmp_path, pa.table({"id": [9], "more": [1]}), mode="append", schema_mode="merge")
    assert last_change() == (6, 6)
    table = DeltaTable(tmp_path)
    table.vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=False)
    assert last_change() == (8, 6)  # VACUUM START and END


def test_last_change_of_a_log_is_the_newest_commit_that_may_be_one(tmp_path: Path) -> None:
    quiet = [commit_info("OPTIMIZE"), add("b", dataChange=False)]
    write_log(tmp_path, {0: [protocol(), metadata()], 1: [add("a")], 2: quiet, 3: [metadata()], 4: quiet, 5: quiet})
    log = TableLog.for_path(tmp_path)
    assert [log.last_data_change(log.list(), version) for version in range(6)] == [0, 1, 1, 1, 1, 1]
    assert log.last_data_change(log.list(), 5, first=2) is None
    (tmp_path / "_delta_log" / f"{4:020d}.json").write_bytes(b"{nope\n")
    assert log.last_data_change(log.list(), 5) == 4
    (tmp_path / "_delta_log" / f"{4:020d}.json").unlink()
    assert log.last_data_change(log.list(), 5) == 4
