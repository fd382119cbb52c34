"""Small random logs, with the right answers for each of their versions."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

from deltasnap_core.protocol.log_files import file_names
from tests.builders import (
    FIRST_COMMIT_MS,
    Action,
    add,
    commit_info,
    compaction_file,
    content,
    metadata,
    mtime_of,
    protocol,
    remove,
    write_log,
)
from tests.checkpoint_files import STYLES, CheckpointStyle, write_checkpoint
from tests.oracle import OracleState, replay

EXPIRED = FIRST_COMMIT_MS + 3
"""Tombstones up to this time have expired. The deletions are around it."""

PATHS = ("plain.parquet", "p=a%20b/x+y.parquet", "p=a%2520b/x.parquet", "line\u2028.parquet", "ü.parquet")
ODD_PATHS = (
    "日期=2020-01-01%2000%253A00/part-0.parquet",
    "aé%20b.parquet",
    "a%C3%A9 b.parquet",  # the same file, in another spelling
    "%2é",
    "%２０",
    "x%zz%41",
    "xA%zz",
    "\U0001f600%F0%9F%98%80.parquet",
    "%ED%A0%80.parquet",
    "%FF%FE",
    "%%35",
)
"""Paths that are decoded wrongly if text is treated as bytes."""
VECTORS: tuple[dict[str, Any] | None, ...] = (
    None,
    None,
    {"storageType": "u", "pathOrInlineDv": "ab^-aqEH.-t@S}K{vb[*k^", "offset": 4, "sizeInBytes": 40, "cardinality": 6},
    {"storageType": "u", "pathOrInlineDv": "ab^-aqEH.-t@S}K{vb[*k^", "sizeInBytes": 40, "cardinality": 8},
    {"storageType": "i", "pathOrInlineDv": "wi5b=000010000siXQKl0rr91000f55c8Xg0", "sizeInBytes": 9, "cardinality": 2},
)
FEATURES = ["deletionVectors", "v2Checkpoint"]
SCHEMA = {
    "type": "struct",
    "fields": [
        {"name": name, "type": kind, "nullable": True, "metadata": {}}
        for name, kind in (("id", "long"), ("p", "string"))
    ],
}


@dataclass(frozen=True, kw_only=True)
class MadeTable:
    """A table on disk, and the known facts about it.

    commits, states: by version. first: the first commit that still exists. checkpoints: by version, the style.
    in_commit_timestamps: whether the commits have their own timestamps.
    """

    folder: Path
    commits: tuple[list[Action], ...]
    states: tuple[OracleState, ...]
    first: int
    checkpoints: dict[int, CheckpointStyle]
    in_commit_timestamps: bool

    @property
    def log(self) -> Path:
        """The log folder."""
        return self.folder / file_names.LOG_FOLDER

    @property
    def versions(self) -> range:
        """The versions whose state can be computed."""
        return range(self.first, len(self.commits))

    def files(self) -> list[Path]:
        """Every file below the log folder, in order."""
        return sorted(path for path in self.log.rglob("*") if path.is_file())

    def timestamp(self, version: int) -> int:
        """Return the commit time of a version, in ms since the epoch."""
        return in_commit_timestamp(version) if self.in_commit_timestamps else mtime_of(version)


def in_commit_timestamp(version: int) -> int:
    """Return the timestamp inside the commit of a version."""
    return mtime_of(version) + 7


def make_table(folder: Path, rng: Random) -> MadeTable:
    """Write a table of a few versions, with any other files that a log may have."""
    timed = rng.random() < 0.25
    count = rng.randint(2, 7)
    commits = tuple(_commit(rng, version, timed) for version in range(count))
    states = tuple(replay(commits))
    log = write_log(folder, dict(enumerate(commits)))
    checkpoints = {rng.randrange(count): rng.choice(STYLES) for _ in range(rng.choice((0, 1, 1, 2)))}
    for version, style in checkpoints.items():
        write_checkpoint(log, version, style, states[version].actions(EXPIRED))
    for version in range(count):
        if rng.random() < 0.4:
            _write(log / file_names.checksum_file(version), json.dumps(_checksum(states[version], version, timed)))
    if count > 2 and rng.random() < 0.3:
        first, last = sorted(rng.sample(range(count), 2))
        merged = replay([[action for commit in commits[first : last + 1] for action in commit]])[-1]
        (log / compaction_file(first, last)).write_bytes(content(merged.actions(0)))
    first = rng.choice([0, 0, *checkpoints])
    for version in range(first):
        (log / file_names.commit_file(version)).unlink()
    if checkpoints and rng.random() < 0.7:
        _write(log / file_names.LAST_CHECKPOINT, json.dumps({"version": rng.choice(list(checkpoints)), "size": 1}))
    return MadeTable(
        folder=folder, commits=commits, states=states, first=first, checkpoints=checkpoints, in_commit_timestamps=timed
    )


def _commit(rng: Random, version: int, timed: bool) -> list[Action]:
    own_time = {"inCommitTimestamp": in_commit_timestamp(version)} if timed else {}
    actions = [commit_info(rng.choice(("WRITE", "MERGE")), operationParameters={"add": '{"add":1}'}, **own_time)]
    if version == 0:
        actions += [_protocol(), _metadata(rng, timed)]
    made = [_action(rng, timed) for _ in range(rng.randint(0, 6))]
    # The protocol forbids two actions in a commit about the same thing.
    return actions + list({_subject(action): action for action in made}.values())


def _action(rng: Random, timed: bool) -> Action:
    path, vector = rng.choice(PATHS if rng.random() < 0.6 else ODD_PATHS), rng.choice(VECTORS)
    match rng.choice(("add", "add", "add", "remove", "txn", "domain", "metadata", "protocol", "cdc")):
        case "add":
            stats = rng.choice((None, json.dumps({"numRecords": rng.randint(0, 9)})))
            size, value = rng.choice((0, 9_000, 2**53 + 1)), rng.choice((None, "", "a b"))
            return add(path, size=size, partitionValues={"p": value}, stats=stats, deletionVector=vector)
        case "remove":
            deleted = rng.choice((None, EXPIRED - 1, EXPIRED, EXPIRED + 1))
            return remove(path, deletion_timestamp=deleted, deletionVector=vector)
        case "txn":
            return {"txn": {"appId": rng.choice("ab"), "version": rng.randint(0, 9)}}
        case "domain":
            domain = {"domain": rng.choice(("d", "delta.x")), "configuration": '{"add":1}'}
            return {"domainMetadata": {**domain, "removed": rng.random() < 0.3}}
        case "metadata":
            return _metadata(rng, timed)
        case "protocol":
            return _protocol()
        case _:
            return {"cdc": {"path": "_change_data/x", "partitionValues": {}, "size": 1, "dataChange": False}}


def _protocol() -> Action:
    return protocol(3, 7, readerFeatures=FEATURES, writerFeatures=[*FEATURES, "inCommitTimestamp", "domainMetadata"])


def _metadata(rng: Random, timed: bool) -> Action:
    configuration = {"delta.enableInCommitTimestamps": "true"} if timed else {}
    schema = json.dumps(SCHEMA)
    name = rng.choice(("one", "a b", "ü"))
    return metadata(configuration=configuration, schemaString=schema, partitionColumns=["p"], name=name)


def _subject(action: Action) -> str:
    ((kind, values),) = action.items()
    kind = "file" if kind in ("add", "remove") else kind
    named = [values.get(name) for name in ("path", "deletionVector", "appId", "domain")]
    return f"{kind} {named}"


def _checksum(state: OracleState, version: int, timed: bool) -> dict[str, Any]:
    counts = state.counts(EXPIRED)
    return {
        "tableSizeBytes": counts["size_in_bytes"],
        "numFiles": counts["num_files"],
        "numMetadata": 1,
        "numProtocol": 1,
        "metadata": state.metadata,
        "protocol": state.protocol,
        "setTransactions": list(state.transactions.values()),
        "domainMetadata": list(state.domains.values()),
        "numDeletionVectorsOpt": counts["num_deletion_vectors"],
        **({"inCommitTimestampOpt": in_commit_timestamp(version)} if timed else {}),
    }


def _write(file: Path, text: str) -> None:
    file.write_text(text, encoding="utf-8")
    os.utime(file, (FIRST_COMMIT_MS / 1000, FIRST_COMMIT_MS / 1000))
