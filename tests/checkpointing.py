"""The content of a table for readers, before and after its commits are replaced by a checkpoint."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from deltasnap_core.protocol.actions import Metadata, Protocol
from deltasnap_core.protocol.log_files.file_names import (
    LAST_CHECKPOINT,
    SIDECAR_FOLDER,
    CheckpointKind,
    LogFileKind,
    ParsedLogPath,
)
from deltasnap_core.rules.file_actions import ADD, REMOVE
from tests.builders import Action
from tests.oracle import OracleState, comparable, replay

_ADD = {field.name for field in ADD}
_REMOVE = {field.name for field in REMOVE} - {"tags", "stats"}


def log_files(log: Path) -> Iterator[tuple[ParsedLogPath, Path]]:
    """Yield the files of a log, by name."""
    for file in sorted(log.iterdir()):
        parsed = ParsedLogPath.parse(file.name)
        if parsed is not None and file.is_file():
            yield parsed, file


def drop_checkpoints(log: Path, version: int) -> None:
    """Delete the checkpoints of a version, and the hint."""
    (log / LAST_CHECKPOINT).unlink(missing_ok=True)
    for parsed, file in log_files(log):
        if parsed.kind is LogFileKind.CHECKPOINT and parsed.version == version:
            file.unlink()


def cut_to_checkpoint(log: Path, version: int) -> None:
    """Keep only the checkpoints of a version and later files: no earlier file, commit, `.crc` or hint."""
    (log / LAST_CHECKPOINT).unlink(missing_ok=True)
    for parsed, file in log_files(log):
        if parsed.version < version or (parsed.version == version and parsed.kind is not LogFileKind.CHECKPOINT):
            file.unlink()


def commits_of(log: Path, version: int) -> list[list[Action]] | None:
    """Return the actions of the commits 0 to `version`; None: one is missing.

    The newest classic checkpoint with statistics as JSON replaces the commits up to it: the metadata and tags in it may
    be spelled in another way.
    """
    files = {parsed.version: file for parsed, file in log_files(log) if parsed.kind is LogFileKind.COMMIT}
    checkpoints = [
        (parsed.version, file) for parsed, file in log_files(log) if parsed.checkpoint_kind is CheckpointKind.CLASSIC
    ]
    base: list[list[Action]] = []
    for first, file in sorted(checkpoints, reverse=True):
        if file.stat().st_size and "stats" in [field.name for field in pq.read_schema(file).field("add").type]:
            base, files = [_rows(file)], {each: files[each] for each in files if each > first}
            break
    else:
        first = -1
    if any(each not in files for each in range(first + 1, version + 1)):
        return None
    return [*base, *(_lines(files[each]) for each in range(first + 1, version + 1))]


def checkpoint_actions(log: Path, name: str) -> list[Action]:
    """Return the actions of a checkpoint: of its top-level file, and of the sidecars that it names."""
    file = log / name
    actions = _lines(file) if name.endswith(".json") else _rows(file)
    for action in [action for action in actions if "sidecar" in action]:
        actions += _rows(log / SIDECAR_FOLDER / action["sidecar"]["path"])
    return actions


def by_oracle(commits: Iterable[Iterable[Action]], *, with_stats: bool = True) -> list[str]:
    """Return the oracle's state after commits, with every tombstone, in comparable form."""
    return _comparable(replay([list(commit) for commit in commits])[-1], with_stats)


def state_of_checkpoint(actions: Iterable[Action], *, with_stats: bool = True) -> list[str]:
    """Return the oracle's state of a checkpoint alone, in comparable form."""
    return _comparable(OracleState().after(actions), with_stats)


def seen_by_deltalake(table: Path, app_ids: Iterable[str]) -> dict[str, Any]:
    """Return the latest version as read by deltalake. Errors: those of deltalake."""
    from deltalake import DeltaTable

    found = DeltaTable(str(table))
    adds = pa.table(found.get_add_actions(flatten=True)).to_pylist()
    metadata, protocol = found.metadata(), found.protocol()
    return {
        "version": found.version(),
        "files": sorted(found.file_uris()),
        "adds": {(add["path"], number): _texts(add) for number, add in enumerate(sorted(adds, key=_path))},
        "schema": json.loads(found.schema().to_json()),
        "metadata": (metadata.id, metadata.name, metadata.partition_columns, metadata.configuration),
        "protocol": (
            protocol.min_reader_version,
            protocol.min_writer_version,
            sorted(protocol.reader_features or ()),
            sorted(protocol.writer_features or ()),
        ),
        "transactions": {app_id: found.transaction_version(app_id) for app_id in app_ids},
    }


def _path(add: dict[str, Any]) -> str:
    return str(add["path"])


def _texts(add: dict[str, Any]) -> dict[str, str]:
    return {name: str(value) for name, value in add.items() if value is not None}


def shared_types(ours: pa.DataType | pa.Schema, theirs: pa.DataType | pa.Schema, path: str = "") -> list[str]:
    """Return the fields that two schemas share and that differ in type or nullability."""
    wrong = []
    by_name = {field.name: field for field in theirs}
    for field in ours:
        other, name = by_name.get(field.name), f"{path}.{field.name}"
        if other is None:
            continue
        if field.nullable != other.nullable:
            wrong.append(f"{name}: nullable {field.nullable}, {other.nullable}")
        if pa.types.is_struct(field.type) and pa.types.is_struct(other.type):
            wrong += shared_types(field.type, other.type, name)
        elif field.type != other.type:
            wrong.append(f"{name}: {field.type}, {other.type}")
    return wrong


def _lines(file: Path) -> list[Action]:
    return [json.loads(line) for line in file.read_text(encoding="utf-8").split("\n") if line.strip()]


def _rows(file: Path) -> list[Action]:
    rows = pq.read_table(file).to_pylist(maps_as_pydicts="strict")
    return [{name: value for name, value in row.items() if value is not None} for row in rows]


def _comparable(state: OracleState, with_stats: bool) -> list[str]:
    return comparable(_kept(action, with_stats) for action in state.actions(0))


def _kept(action: Action, with_stats: bool) -> Action:
    """Return an action with the fields that a checkpoint keeps. Statistics are parsed: their spelling may differ."""
    ((name, values),) = action.items()
    if name in ("add", "remove"):
        known = (_ADD if with_stats else _ADD - {"stats"}) if name == "add" else _REMOVE
        kept = {key: value for key, value in values.items() if key in known} | {"dataChange": False}
        return {name: kept | ({"stats": json.loads(kept["stats"])} if kept.get("stats") else {})}
    if name == "metaData":
        return {name: Metadata.from_json(values).to_json()}
    return {name: Protocol.from_json(values).to_json()} if name == "protocol" else action
