"""Random logs, and the oracle's results for them."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

from deltasnap_core.protocol.log_files import file_names
from tests.builders import (
    FIRST_COMMIT_MS,
    Action,
    add,
    commit_info,
    compaction_file,
    content,
    metadata,
    protocol,
    remove,
    write_log,
)
from tests.checkpoint_files import STYLES, CheckpointStyle, write_checkpoint
from tests.oracle import OracleState, replay

KEEP_ALL = 0
# Tombstones up to this time have expired. Deletion times are around it.
EXPIRED = FIRST_COMMIT_MS + 3

PATHS = (
    "plain.parquet",
    "p=a%20b/x+y.parquet",
    "p=a%2520b/x.parquet",
    "s3://else/where/f.parquet",
    "line\u2028.parquet",
)
FILE_VECTOR = {"storageType": "u", "pathOrInlineDv": "ab^-aqEH.-t@S}K{vb[*k^", "sizeInBytes": 40}
INLINE = "wi5b=000010000siXQKl0rr91000f55c8Xg0@@D72lkbi5=-{L"
VECTORS: tuple[dict[str, Any] | None, ...] = (
    None,
    {**FILE_VECTOR, "offset": 4, "cardinality": 6},
    {**FILE_VECTOR, "offset": 0, "cardinality": 7},
    {**FILE_VECTOR, "cardinality": 8},
    {"storageType": "i", "pathOrInlineDv": INLINE, "sizeInBytes": 9, "cardinality": 2},
)
NO_PART: tuple[Action, ...] = (
    commit_info("WRITE", operationParameters={"add": '{"add":1}'}),
    {"cdc": {"path": "_change_data/x", "partitionValues": {}, "size": 1, "dataChange": False}},
    {"checkpointMetadata": {"version": 3}},
    {"unheardOf": {"add": {"path": "not one"}}},
    {"remove": None, "add": None},
)


@dataclass(frozen=True)
class RandomLog:
    """The contents of a log.

    checkpoints: by version, the style. first_commit: older commits are gone. hint: content of `_last_checkpoint`.
    """

    commits: list[list[Action]]
    checkpoints: dict[int, CheckpointStyle]
    compactions: list[tuple[int, int]]
    first_commit: int
    hint: bytes | None

    @property
    def versions(self) -> range:
        return range(self.first_commit, len(self.commits))


def small(limit: int) -> st.SearchStrategy[int]:
    return st.integers(0, limit)


vectors = st.sampled_from(VECTORS)
adds = st.builds(
    lambda path, size, records, vector, value: add(
        path,
        size=size,
        partitionValues={"p": value},
        stats=None if records is None else json.dumps({"numRecords": records}),
        deletionVector=vector,
    ),
    st.sampled_from(PATHS),
    st.sampled_from((0, 9_000, 2**53 + 1)),
    st.none() | small(9),
    vectors,
    st.sampled_from((None, "", "a b")),
)
removes = st.builds(
    lambda path, deleted, vector, size: remove(path, deletion_timestamp=deleted, deletionVector=vector, **size),
    st.sampled_from(PATHS),
    st.none() | st.integers(EXPIRED - 1, EXPIRED + 1),
    vectors,
    st.sampled_from(({}, {"size": 9_000, "partitionValues": {"p": None}})),
)
others = st.one_of(
    st.builds(lambda app, version: {"txn": {"appId": app, "version": version}}, st.sampled_from("ab"), small(9)),
    st.builds(
        lambda name, value, removed: {"domainMetadata": {"domain": name, "configuration": value, "removed": removed}},
        st.sampled_from(("d", "delta.x")),
        st.sampled_from(("{}", '{"v":1}')),
        st.booleans(),
    ),
    st.builds(lambda table_id: metadata(table_id=table_id), st.sampled_from(("one", "two"))),
    st.just(protocol(3, 7, readerFeatures=["deletionVectors", "v2Checkpoint"], writerFeatures=["deletionVectors"])),
    st.sampled_from(NO_PART),
)


def identity(action: Action) -> tuple[str, ...]:
    """Return the identity of an action: the protocol forbids two actions of a kind with the same one in a commit."""
    ((kind, values),) = list(action.items())[:1]
    subject = values and (
        values.get("path"),
        str(values.get("deletionVector")),
        values.get("appId"),
        values.get("domain"),
    )
    return kind, str(subject)


commits = st.lists(adds | adds | removes | others, max_size=6, unique_by=identity)


@st.composite
def random_logs(draw: st.DrawFn) -> RandomLog:
    later = draw(st.lists(commits, min_size=1, max_size=5))
    versions = [[protocol(), metadata(), *draw(commits)], *later]
    last = len(versions) - 1
    checkpoints = draw(st.dictionaries(st.integers(0, last), st.sampled_from(STYLES), max_size=2))
    first_commit = draw(st.sampled_from([0, *checkpoints]))
    pairs = [(first, end) for first in range(last) for end in range(first + 1, last + 1)]
    hints = [None, b"", b"{}", b'{"version":9999,"size":1}'] + [b'{"version":%d,"size":1}' % v for v in checkpoints]
    return RandomLog(
        commits=versions,
        checkpoints=checkpoints,
        compactions=draw(st.lists(st.sampled_from(pairs), max_size=2, unique=True)),
        first_commit=first_commit,
        hint=draw(st.sampled_from(hints)),
    )


def write(table: Path, made: RandomLog, states: list[OracleState]) -> None:
    """Write a log. Its checkpoints leave out expired tombstones, as real writers do."""
    log = write_log(table, dict(enumerate(made.commits)))
    for version, style in made.checkpoints.items():
        write_checkpoint(log, version, style, states[version].actions(EXPIRED))
    for first, end in made.compactions:
        state = replay([[action for commit in made.commits[first : end + 1] for action in commit]])[-1]
        (log / compaction_file(first, end)).write_bytes(content(state.actions(KEEP_ALL)))
    for version in range(made.first_commit):
        (log / file_names.commit_file(version)).unlink()
    if made.hint is not None:
        (log / file_names.LAST_CHECKPOINT).write_bytes(made.hint)
