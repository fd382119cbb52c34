"""Logs that are replaced while they are in use: restored, rolled back and continued, with clocks that go back.

Regardless of earlier reads and stored versions, every later result must match the current log.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

from deltasnap_core import DeltaLog, LogCursor, SnapshotStore, TableLog
from deltasnap_core.protocol.log_files import file_names
from tests.builders import content
from tests.checkpoint_files import STYLES, write_checkpoint
from tests.fuzz.judge import Finding, Tried
from tests.fuzz.made_tables import EXPIRED, MadeTable, make_table
from tests.fuzz.questions import Answer, ask, rows_of
from tests.oracle import OracleState, comparable, counts_of, replay

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SAME_LENGTH = {
    '"MERGE"': '"WRITE"',
    '"WRITE"': '"MERGE"',
    "plain": "plane",
    "9000": "9001",
    "line\\u2028": "lime\\u2028",
}
"""Texts of commits, with replacements of the same length."""


def try_rewriting(seed: int, spark: SparkSession | None = None) -> Tried:
    """Read and store a table, rewrite its log, read and store it again, and return the wrong answers."""
    rng = Random(seed)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        table = make_table(folder / "a table", rng)
        readers = _Readers(table, folder / "store", spark)
        readers.read_all()
        kind, text, table = _rewritten(table, rng)
        if "and time" in kind:
            readers.reopen()
        wrong = [*_wrong_answers(table, readers), *_wrong_polls(table, readers)]
    return Tried((kind,), tuple(Finding(seed, name, (text,), reported[:1500]) for name, reported in wrong))


class _Readers:
    """The readers of the table, before and after."""

    def __init__(self, table: MadeTable, store: Path, spark: SparkSession | None) -> None:
        self.log = TableLog.for_path(table.folder)
        self.delta_log = None if spark is None else DeltaLog.for_table(spark, table.folder)
        self.store = None if spark is None else SnapshotStore.open(spark, store)
        self._table = table
        self.cursor: LogCursor | None = None
        self.commits: dict[int, bytes] = {}

    def reopen(self) -> None:
        """Reopen the snapshots, which identify a commit that they have read by its size and time."""
        DeltaLog.clear_cache()
        if self.delta_log is not None:
            spark = self.delta_log.context.session("the same table again")
            self.delta_log = DeltaLog.for_table(spark, self._table.folder)

    def read_all(self) -> None:
        self.cursor = self.log.cursor(self.log.status())
        self.commits = _contents(self._table)
        if self.delta_log is not None and self.store is not None:
            _ = self.delta_log.snapshot.computed_state
            self.store.write_range("t", self.delta_log, self._table.versions[0], self._table.versions[-1])


def _contents(table: MadeTable) -> dict[int, bytes]:
    commits = sorted(table.log.glob("*[0-9].json"))
    return {int(file.name[:20]): file.read_bytes() for file in commits if len(file.name) == 25}


def _rewritten(table: MadeTable, rng: Random) -> tuple[str, str, MadeTable]:
    """Roll the log back to a version, and continue it or not. Return the change and the resulting table."""
    kept = rng.choice(table.versions)
    times = {version: (table.log / file_names.commit_file(version)).stat().st_mtime_ns for version in table.versions}
    for file in table.files():
        if file.name[:20].isdecimal() and int(file.name[:20]) > kept:
            file.unlink()
    for file in table.log.glob(f"*.{'[0-9]' * 20}.compacted.json"):
        file.unlink()
    commits = list(table.commits[: kept + 1])
    how = rng.choice(("equal size and time", "equal size", "clocks that go back", "other commits"))
    end = kept + 1 + rng.randint(0, 4)
    written = _plausible(table, {version: _commit(table, version, how, rng) for version in range(kept + 1, end)})
    for version, commit in written.items():
        file = table.log / file_names.commit_file(version)
        file.write_bytes(content(commit))
        time = times.get(version, times[kept] + version * 60_000_000_000)
        if how == "clocks that go back":
            time = times[min(times)] - version * 60_000_000_000
        elif how == "equal size":
            time += 5_000_000_000
        os.utime(file, ns=(time, time))
        commits.append(commit)
    states = tuple(replay(commits))
    if rng.random() < 0.4 and len(commits) > 1:
        version = rng.randrange(table.first, len(commits))
        write_checkpoint(table.log, version, rng.choice(STYLES), states[version].actions(EXPIRED))
    if rng.random() < 0.5:  # it points past the end, or to a former checkpoint
        hint = json.dumps({"version": rng.choice((kept, kept + 1, kept + 9, table.versions[-1])), "size": 1})
        (table.log / file_names.LAST_CHECKPOINT).write_text(hint, encoding="utf-8")
    text = f"rolled back to {kept}, {len(commits) - kept - 1} commits written on: {how}"
    return f"rolled back and written on: {how}", text, replace(table, commits=tuple(commits), states=states)


def _plausible(table: MadeTable, written: dict[int, list[dict[str, Any]]]) -> dict[int, list[dict[str, Any]]]:
    """Return the commits without changes before one that is still the same: a log only grows, and commits have a time.

    So the store compares the bytes of the newest stored commit, and sizes and times of those between checkpoint and it.
    """
    old = dict(enumerate(table.commits))
    newest_same = max((version for version, commit in written.items() if commit == old.get(version)), default=-1)
    return {version: old[version] if version <= newest_same else commit for version, commit in written.items()}


def _commit(table: MadeTable, version: int, how: str, rng: Random) -> list[dict[str, Any]]:
    if how.startswith("equal size") and version < len(table.commits):
        text = json.dumps(table.commits[version], ensure_ascii=True)
        for old, new in SAME_LENGTH.items():
            if old in text and rng.random() < 0.6:
                text = text.replace(old, new)
                break
        commit: list[dict[str, Any]] = json.loads(text)
        return commit
    source = rng.choice(table.commits[1:] or table.commits)
    own_time = {"inCommitTimestamp": table.timestamp(version)} if table.in_commit_timestamps else {}
    info: dict[str, Any] = {
        "commitInfo": {"operation": rng.choice(("RESTORE", "WRITE")), "operationParameters": {}, **own_time}
    }
    return [info, *(action for action in source if "commitInfo" not in action)]


def _wrong_answers(table: MadeTable, readers: _Readers) -> Iterator[tuple[str, str]]:
    latest = table.versions[-1]
    for answer in _answers(table, readers):
        version = latest if answer.version is None else answer.version
        error = answer.failure or answer.refusal
        if error is not None:
            yield f"{type(error).__name__} in a rewritten log", f"{answer.question} of {answer.version}: {error}"
        elif answer.value != (right := _right(table.states[version], answer.question, version)):
            yield f"{answer.question}: not what the rewritten log says", f"of {version}: {answer.value}, but {right}"


def _answers(table: MadeTable, readers: _Readers) -> Iterator[Answer]:
    log, delta_log, store = readers.log, readers.delta_log, readers.store
    latest = table.versions[-1]
    yield ask("version", None, lambda: log.latest().version, seconds=20)
    yield ask("protocol and metadata", None, lambda: _protocol_and_metadata(log.latest()), seconds=20)
    if delta_log is None or store is None:
        return
    yield ask("version", None, lambda: delta_log.update().version, seconds=120)
    yield ask("files", None, lambda: counts_of(delta_log.snapshot.computed_state)["num_files"], seconds=120)
    yield ask("bytes", None, lambda: counts_of(delta_log.snapshot.computed_state)["size_in_bytes"], seconds=120)
    first = table.versions[0]
    yield ask("stored versions", None, lambda: _stored(store, delta_log, first, latest), seconds=120)
    for version in table.versions:
        yield ask("stored rows", version, partial(_stored_rows, store, version), seconds=120)


def _stored_rows(store: SnapshotStore, version: int) -> list[str]:
    return rows_of(store.state("t", version, min_file_retention_timestamp=EXPIRED))


def _stored(store: SnapshotStore, log: DeltaLog, first: int, last: int) -> int:
    store.write_range("t", log, first, last)
    return store.versions("t")[-1]


def _protocol_and_metadata(log: Any) -> list[str]:
    return comparable([log.protocol.to_json(), log.metadata.to_json()])


def _right(state: OracleState, question: str, version: int) -> Any:
    counts = state.counts(EXPIRED)
    return {
        "version": version,
        "stored versions": version,
        "protocol and metadata": comparable([state.protocol or {}, state.metadata or {}]),
        "files": counts["num_files"],
        "bytes": counts["size_in_bytes"],
        "stored rows": comparable(state.actions(EXPIRED)),
    }[question]


def _wrong_polls(table: MadeTable, readers: _Readers) -> Iterator[tuple[str, str]]:
    """Yield wrong polls: a cursor from before must detect the new log if size or time of its last commit differs."""
    cursor = readers.cursor
    assert cursor is not None
    answer = ask("poll", None, lambda: readers.log.new_commits(cursor), seconds=20)
    error = answer.failure or answer.refusal
    if error is not None:
        yield f"{type(error).__name__} in a rewritten log", f"poll: {error}"
        return
    before, now = readers.commits.get(cursor.version), _contents(table).get(cursor.version)
    if now is None and before is not None and (answer.value is None or not answer.value.is_fork):
        yield "poll: a log that went back is taken for the same", f"{cursor}: {answer.value}"
    file = table.log / file_names.commit_file(cursor.version)
    is_seen = now != before and now is not None and file.stat().st_mtime_ns // 1_000_000 != cursor.modification_time
    if is_seen and (answer.value is None or not answer.value.is_fork):
        yield "poll: a log that forked is taken for the same", f"{cursor}: {answer.value}"
