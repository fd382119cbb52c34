"""Logs with damaged and missing commits, also under sound checkpoints. Plain Python decides which versions are lost.

Every version that can be loaded has the right answers and is stored; every other one is refused. The history has a line
for each commit.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import pytest

from deltasnap_assets.command.views.history import LostCommits, read_history
from deltasnap_core import DeltaLog, SnapshotStore, TableLog
from deltasnap_core.protocol.log_files import file_names
from tests.builders import Action, content
from tests.driver_bases import use_driver_bases
from tests.fuzz.judge import Finding, Tried
from tests.fuzz.made_tables import EXPIRED, MadeTable, make_table
from tests.fuzz.meanings import rewrite
from tests.fuzz.questions import Answer, ask
from tests.oracle import counts_of
from tests.without_spark import log_without_spark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

REQUIRED = {
    "protocol": ("minReaderVersion", "minWriterVersion"),
    "metaData": ("id",),
    "add": ("path", "size"),
    "remove": ("path",),
    "txn": ("appId", "version"),
    "domainMetadata": ("domain", "configuration", "removed"),
}
"""Fields without which nobody knows the state of a version."""

KINDS = ("no file", "garbage", "no UTF-8", "half a line", "text after an object", "required field")
"""The kinds of damage of `break_commit`."""

USUAL = {"metaData": ("schemaString", "format"), "add": ("modificationTime", "dataChange"), "remove": ("dataChange",)}
"""Fields that the protocol requires too, but that the list of files does not depend on."""


@dataclass(frozen=True)
class Damage:
    """What was done to a log. damaged: the versions whose commits are missing or damaged.

    without_schema: the versions whose sound commits end with metadata without a schema.
    """

    damaged: frozenset[int]
    without_schema: frozenset[int]
    texts: tuple[str, ...]


def try_damaging(seed: int, spark: SparkSession | None = None) -> Tried:
    """Make the table of a seed, damage commits, query every version, and return the wrong answers.

    Without a session, the driver writes the bases of stored versions.
    """
    rng = Random(seed)
    with tempfile.TemporaryDirectory() as name, ExitStack() as stack:
        if spark is None:
            use_driver_bases(stack.enter_context(pytest.MonkeyPatch.context()))
        table = make_table(Path(name, "a table"), rng)
        damage = _damaged(table, rng)
        wrong = [*_wrong_versions(table, damage, spark, Path(name, "store")), *_wrong_history(table, damage)]
        DeltaLog.clear_cache()
    findings = tuple(Finding(seed, kind, damage.texts, text[:1500]) for kind, text in wrong)
    return Tried(tuple({text.split(": ")[-1].partition(" (")[0] for text in damage.texts}), findings)


def _damaged(table: MadeTable, rng: Random) -> Damage:
    """Damage some commits: at least one, preferably one that a checkpoint replaces."""
    existing = [version for version in range(len(table.commits)) if _commit(table, version).exists()]
    chosen = {version for version in existing if rng.random() < 0.2}
    chosen.add(rng.choice([version for version in existing if version in table.checkpoints] or existing))
    texts, without_schema, damaged = list[str](), set[int](), set(range(len(table.commits))).difference(existing)
    for version in existing:
        file = _commit(table, version)
        if version in chosen:
            kind = rng.choice(KINDS)
            damaged.add(version)
            texts.append(f"{version}: {break_commit(file, kind, table.commits[version], rng)}")
        elif rng.random() < 0.3:
            actions, text = _without_field(table.commits[version], USUAL, rng)
            if text is not None:
                rewrite(file, content(actions))
                texts.append(f"{version}: usual field ({text})")
            metadata = [action["metaData"] for action in actions if "metaData" in action]
            if metadata and "schemaString" not in metadata[-1]:
                without_schema.add(version)
            if rng.random() < 0.3:
                rewrite(file, file.read_bytes().replace(b"}\n", b"}x\n"))
                texts.append(f"{version}: ends in x")
    return Damage(frozenset(damaged), frozenset(without_schema), tuple(texts))


def break_commit(file: Path, kind: str, commit: list[Action], rng: Random) -> str:
    """Damage a commit. Return what was done."""
    lines = file.read_bytes().splitlines()
    place = rng.randrange(len(lines))
    match kind:
        case "no file":
            file.unlink()
            return kind
        case "garbage":
            lines[place] = rng.choice((b"garbage {", b"null", b"[]", b"x", b'{"add":1}'))
        case "no UTF-8":
            lines[place] = lines[place][:-1] + b',"\xff":1}'
        case "half a line":
            lines[place] = lines[place][: rng.randint(1, len(lines[place]) - 1)]
        case "text after an object":
            lines[place] += rng.choice((b"xx", b" x", b"x ", b"X", b"}", b",", b"null", b"{}", b"x\r"))
        case _:
            actions, text = _without_field(commit, REQUIRED, rng)
            if text is not None:
                rewrite(file, content(actions))
                return f"required field ({text})"
            lines[place] = b"{"
    rewrite(file, b"\n".join(lines))
    return f"{kind} ({place + 1})"


def _without_field(
    commit: list[Action], fields: dict[str, tuple[str, ...]], rng: Random
) -> tuple[list[Action], str | None]:
    """Return a commit in which a field of an action is missing or null, and which one; None: it has no such action."""
    copy = json.loads(json.dumps(commit))
    places = [
        (action[kind], name) for action in copy for kind in action.keys() & fields.keys() for name in fields[kind]
    ]
    if not places:
        return copy, None
    values, name = rng.choice(sorted(places, key=lambda place: place[1]))
    values[name] = None
    if rng.random() < 0.5:
        del values[name]
    return [_normal(action) for action in copy], name


def _normal(action: Action) -> Action:
    """Return an action whose metadata has no null for its schema: null and absent are equal."""
    values = action.get("metaData")
    if values is not None and values.get("schemaString", 1) is None:
        return {"metaData": {key: value for key, value in values.items() if key != "schemaString"}}
    return action


def _start(table: MadeTable, damage: Damage, version: int) -> int | None:
    """Return the checkpoint that a version is loaded from, -1 for the first commit; None: it cannot be loaded."""
    start = max((each for each in table.checkpoints if each <= version), default=-1)
    needed = set(range(start + 1, version + 1))
    return None if needed & damage.damaged else start


def _wrong_versions(
    table: MadeTable, damage: Damage, spark: SparkSession | None, store_folder: Path
) -> Iterator[tuple[str, str]]:
    versions = range(len(table.commits))
    starts = {version: _start(table, damage, version) for version in versions}
    loadable = [version for version, start in starts.items() if start is not None]
    log = TableLog.for_path(table.folder)
    condition = log.condition(first=0)
    if list(condition.loadable) != loadable:
        yield "loadable versions: not what the log says", f"{condition.loadable}, but {loadable}"
    if loadable:
        newest = loadable[-1]
        with_metadata = [v for v in versions[: newest + 1] if any("metaData" in each for each in table.commits[v])]
        is_broken = with_metadata[-1] > (starts[newest] or -1) and with_metadata[-1] in damage.without_schema
        if starts[newest] == 0:
            is_broken = with_metadata[-1] > 0 and with_metadata[-1] in damage.without_schema
        if any(fault.kind.is_of_schema for fault in condition.faults) != is_broken:
            yield "missing schema: not what the log says", f"{condition.faults}, but {is_broken}"
    opened = log_without_spark(log) if spark is None else DeltaLog.for_table(spark, table.folder)
    for version in versions:
        answer = ask("computed state", version, partial(_counts_at, opened, version), seconds=60)
        yield from _wrong(answer, table.states[version].counts(EXPIRED) if version in loadable else None)
    if loadable:
        yield from _wrong_store(table, loadable, opened, SnapshotStore.open(spark, store_folder))


def _wrong_store(
    table: MadeTable, loadable: list[int], log: DeltaLog, store: SnapshotStore
) -> Iterator[tuple[str, str]]:
    for expected in (len(loadable), 0):
        written = ask("store", None, lambda: len(store.write_versions("t", log, loadable).written), seconds=120)
        if "only Spark reads" in str(written.refusal):  # the bases of the driver cannot begin at a checkpoint in JSON
            return
        yield from _wrong(written, expected)
    for version in loadable:
        answer = ask("stored state", version, partial(_stored_counts, store, version), seconds=60)
        right = table.states[version].counts(EXPIRED)
        right.pop("num_tombstones")  # the store counts them at a different time
        yield from _wrong(answer, right)


def _wrong_history(table: MadeTable, damage: Damage) -> Iterator[tuple[str, str]]:
    existing = [version for version in range(len(table.commits)) if _commit(table, version).exists()]
    if not existing:
        return
    lost = [version for version in range(existing[0], existing[-1] + 1) if version in damage.damaged]
    found = ask("history", None, lambda: _lost_in_history(table, existing[0]), seconds=60)
    yield from _wrong(found, lost)


def _lost_in_history(table: MadeTable, first: int) -> list[int]:
    entries = read_history(TableLog.for_path(table.folder), 100).entries
    lost = [each for each in entries if isinstance(each, LostCommits)]
    return sorted(v for each in lost for v in range(each.version, each.last + 1) if v >= first)


def _wrong(answer: Answer, right: Any) -> Iterator[tuple[str, str]]:
    """Yield what is wrong with an answer. right: None: it has to be a refusal."""
    where = f"{answer.question} of {answer.version}"
    if answer.failure is not None:
        yield f"{type(answer.failure).__name__} in {answer.question}", f"{where}: {answer.failure}"
    elif (answer.refusal is None) != (right is not None) or (right is not None and answer.value != right):
        yield f"{answer.question}: not what the log says", f"{where}: {answer.refusal or answer.value}, but {right}"


def _commit(table: MadeTable, version: int) -> Path:
    return table.log / file_names.commit_file(version)


def _counts_at(log: DeltaLog, version: int) -> dict[str, Any]:
    return counts_of(log.get_snapshot_at(version, min_file_retention_timestamp=EXPIRED).computed_state)


def _stored_counts(store: SnapshotStore, version: int) -> dict[str, Any]:
    counts = counts_of(store.computed_state("t", version))
    counts.pop("num_tombstones")
    return counts
