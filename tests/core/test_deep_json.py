"""JSON nested too deeply, anywhere in a log, is our error or a fallback: never a RecursionError."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from deltasnap_core import CorruptLogError, DeltaSnapError, SnapshotState, TableLog, VersionChecksum
from deltasnap_core.log.checksum_validation import compare_with_log
from deltasnap_core.protocol.actions import AddFile
from deltasnap_core.protocol.log_files import file_names
from tests.builders import add, metadata, protocol, write_log
from tests.conftest import FixedClock
from tests.without_spark import log_without_spark

if TYPE_CHECKING:
    from pathlib import Path

DEPTHS = (400, 600, 100_000)  # allowed, refused, beyond the stack
PLACES = (
    "stats",
    "schemaString",
    "configuration",
    "unknown field",
    "commitInfo",
    "_last_checkpoint",
    "crc",
    "crc schema",
)


def write(folder: Path, place: str, deep: str) -> None:
    first: list[dict[str, Any]] = [protocol(), metadata(), add("a", size=1)]
    match place:
        case "stats":
            first[2] = add("a", size=1, stats=f'{{"deep":{deep},"numRecords":3}}')
        case "schemaString":
            first[1] = metadata(schemaString=deep)
        case "configuration":
            first[1] = metadata(configuration={"k": deep})
        case "unknown field" | "commitInfo":
            first.append({"commitInfo" if place == "commitInfo" else "unheardOf": "@deep@"})
    log = write_log(folder, {0: first})
    commit = log / file_names.commit_file(0)
    commit.write_text(commit.read_text(encoding="utf-8").replace('"@deep@"', f'{{"a":{deep}}}'), encoding="utf-8")
    said: dict[str, Any] = {"tableSizeBytes": 1, "numFiles": 1, "numMetadata": 1, "numProtocol": 1}
    said |= {"allFiles": [add("a", size=1, stats=deep)["add"]], "metadata": metadata(schemaString=deep)["metaData"]}
    if place == "_last_checkpoint":
        (log / file_names.LAST_CHECKPOINT).write_text(f'{{"version":0,"tags":{deep}}}', encoding="utf-8")
    elif place == "crc":
        (log / file_names.checksum_file(0)).write_text(f'{{"numFiles":{deep}}}', encoding="utf-8")
    elif place == "crc schema":
        (log / file_names.checksum_file(0)).write_text(json.dumps(said), encoding="utf-8")


@pytest.mark.parametrize("depth", DEPTHS)
@pytest.mark.parametrize("place", PLACES)
def test_each_query_returns_a_result_or_is_rejected(tmp_path: Path, place: str, depth: int) -> None:
    write(tmp_path, place, "[" * depth + "]" * depth)
    table = TableLog.for_path(tmp_path, clock=FixedClock())
    snapshot = log_without_spark(table).get_snapshot_at(0)
    refused = []
    for ask in (
        lambda: table.latest().metadata,
        lambda: table.latest().timestamp,
        lambda: table.history.get_history(),
        lambda: snapshot.computed_state,
        lambda: snapshot.schema,
    ):
        try:
            ask()
        except DeltaSnapError as error:
            refused.append(error)
    if place in ("_last_checkpoint", "crc", "crc schema", "stats", "configuration"):
        assert refused == []
    assert all(isinstance(error, CorruptLogError) for error in refused)


@pytest.mark.parametrize("depth", DEPTHS)
def test_checksum_with_deep_statistics_is_compared(depth: int, tmp_path: Path) -> None:
    deep = "[" * depth + "]" * depth
    write(tmp_path, "none", "")
    state: SnapshotState = log_without_spark(TableLog.for_path(tmp_path, clock=FixedClock())).snapshot.computed_state
    said = {"tableSizeBytes": 1, "numFiles": 1, "numMetadata": 1, "numProtocol": 1}
    checksum = VersionChecksum.parse(json.dumps({**said, "allFiles": [add("a", stats=deep)["add"]]}).encode())
    files = [AddFile.from_json(add("a", stats="{}")["add"])]
    (found,) = compare_with_log(checksum, state, files)
    assert found.field == "all_files"


@pytest.mark.parametrize(
    "schema", ["{nope", "", "[]", '{"type":"struct"}', '{"type":"struct","fields":[{"name":1}]}', "[" * 4_000]
)
def test_broken_schema_raises_an_error_that_names_file_line_and_field(schema: str, tmp_path: Path) -> None:
    write_log(tmp_path, {0: [protocol(), metadata(schemaString=schema)], 1: [add("a")]})
    snapshot = log_without_spark(TableLog.for_path(tmp_path, clock=FixedClock())).snapshot
    with pytest.raises(CorruptLogError, match=r"metaData\.schemaString") as caught:
        _ = snapshot.schema
    assert caught.value.path.endswith(file_names.commit_file(0))
    assert caught.value.line == 2
