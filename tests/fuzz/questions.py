"""All queries on a table, each with a time limit, and their answers in comparable form."""

from __future__ import annotations

import json
import os
import resource
import signal
import stat
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

from deltasnap_core import DeltaLog, DeltaSnapError, SnapshotOptions, SnapshotStore, TableLog
from deltasnap_core.replay.driver.full_actions import live_adds
from deltasnap_core.replay.engine import UnusualError
from deltasnap_core.storage.urls import join_url, to_url
from deltasnap_core.support import LOG_FOLDER
from tests.conftest import NOW_MS
from tests.fuzz.made_tables import EXPIRED
from tests.fuzz.watched_store import WatchedStore
from tests.oracle import comparable, counts_of
from tests.without_spark import log_without_spark

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from deltasnap_core import Snapshot
    from deltasnap_core.log.version_log import VersionLog


GIB = 1 << 30


@dataclass(frozen=True)
class Answer:
    """The result of a query.

    question: its name; version: the version queried (None: the latest). value: None if it was refused.
    refusal: the DeltaSnapError. failure: any other error, which is always wrong.
    """

    question: str
    version: int | None
    value: Any = None
    refusal: DeltaSnapError | None = None
    failure: BaseException | None = None


class TooLongError(BaseException):
    """A query exceeded its time limit. Not an `Exception`, so that the code under test does not catch it."""


@contextmanager
def limited_memory(more: int = 4 * GIB) -> Iterator[None]:
    """Limit the memory of this process to this many more bytes: using all memory then raises a MemoryError."""
    with open("/proc/self/statm", encoding="ascii") as reported:  # noqa: PTH123
        taken = int(reported.read().split()[0]) * resource.getpagesize()
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (taken + more, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


def ask(question: str, version: int | None, answer: Callable[[], Any], *, seconds: float) -> Answer:
    """Run one query. Only in the main thread, because a signal ends a query that takes too long."""

    def end(_signal: int, _frame: FrameType | None) -> None:
        raise TooLongError(f"no answer within {seconds} s")

    before = signal.signal(signal.SIGALRM, end)
    try:
        # Repeated each second, because the exit of the query may hang too.
        signal.setitimer(signal.ITIMER_REAL, seconds, 1)
        return _answer(question, version, answer)
    except TooLongError as error:
        return Answer(question, version, failure=error)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def _answer(question: str, version: int | None, answer: Callable[[], Any]) -> Answer:
    try:
        return Answer(question, version, value=answer())
    except DeltaSnapError as error:
        return Answer(question, version, refusal=error)
    except Exception as error:  # noqa: BLE001  the fuzzer looks for any error
        return Answer(question, version, failure=error)


def log_answers(
    folder: Path, versions: list[int], vanishing: Mapping[Path, int] | None = None, *, seconds: float = 20
) -> list[Answer]:
    """Run all queries that need no Spark: on the latest version, on some versions, and on the whole log."""
    store, log_path = WatchedStore(folder, vanishing), join_url(to_url(folder), LOG_FOLDER)
    log = TableLog(store, log_path, clock=lambda: NOW_MS)
    answers = [answer for version in [None, *versions] for answer in _of_a_version(log, version, seconds)]
    snapshots = log_without_spark(log)
    answers += [ask("computed state", v, partial(_counts_at, snapshots, v), seconds=seconds) for v in versions]
    answers += [ask("files by the driver", v, partial(_files_at, snapshots, v), seconds=seconds) for v in versions]
    answers += [ask(name, None, partial(read, log), seconds=seconds) for name, read in _OF_THE_LOG.items()]
    _release_pipes(folder)
    return answers


def _counts_at(log: DeltaLog, version: int) -> dict[str, Any]:
    return counts_of(log.get_snapshot_at(version, min_file_retention_timestamp=EXPIRED).computed_state)


def _files_at(log: DeltaLog, version: int) -> list[str] | None:
    """Return the live files as the driver reads them; None: only Spark can read them."""
    snapshot = log.get_snapshot_at(version)
    try:
        # A checkpoint that turns out to be damaged is replaced by an older one, as in `Snapshot`.
        found = snapshot.versions.run(
            lambda replayed: live_adds(log.context.table_log.store, replayed.log.replayable, log.path)
        )
    except UnusualError:
        return None
    return sorted(found["path"].to_pylist())


def _of_a_version(log: TableLog, version: int | None, seconds: float) -> list[Answer]:
    opened = ask("version", version, lambda: log.latest() if version is None else log.at(version), seconds=seconds)
    if opened.value is None:
        return [opened]
    found: VersionLog = opened.value
    answers = [Answer("version", version, value=found.version)]
    return answers + [ask(name, version, partial(read, found), seconds=seconds) for name, read in _OF_A_VERSION.items()]


_OF_A_VERSION: dict[str, Callable[[VersionLog], Any]] = {
    "timestamp": lambda log: log.timestamp,
    "protocol": lambda log: comparable([log.protocol.to_json()]),
    "metadata": lambda log: comparable([log.metadata.to_json()]),
    "transactions": lambda log: {txn.app_id: txn.version for txn in log.set_transactions},
    "domains": lambda log: dict(log.domains),
    "checksum": lambda log: None if log.checksum is None else log.checksum.num_files,
    # From here on, no answer comes from the checksum.
    "replayed protocol": lambda log: _json_of(log.replayable.non_file.protocol),
    "replayed metadata": lambda log: _json_of(log.replayable.non_file.metadata),
    "replayed transactions": lambda log: {name: txn.version for name, txn in log.non_file.transactions.items()},
    "replayed domains": lambda log: {name: domain.configuration for name, domain in log.non_file.domains.items()},
}
_OF_THE_LOG: dict[str, Callable[[TableLog], Any]] = {
    "history": lambda log: [(entry.version, entry.timestamp, entry.operation) for entry in log.history.get_history()],
    "latest version": lambda log: log.history.latest_version(),
    "commit timestamps": lambda log: log.history.commit_timestamps(),
    "reconstructable versions": lambda log: log.history.reconstructable_versions(),
    "version as of a time": lambda log: log.at(timestamp=NOW_MS).version,
}


def _json_of(action: Any) -> list[str] | None:
    return None if action is None else comparable([action.to_json()])


def spark_answers(
    spark: SparkSession,
    folder: Path,
    store_folder: Path,
    versions: list[int],
    vanishing: Mapping[Path, int] | None = None,
    *,
    check_pages: bool = False,
    seconds: float = 120,
) -> list[Answer]:
    """Run all queries that need Spark on some versions, ascending. The store answers for all of them."""
    options = SnapshotOptions(cache_state=False, check_pages=check_pages, engine="spark")
    store = WatchedStore(folder, vanishing)
    log = DeltaLog.for_table(spark, folder, clock=lambda: NOW_MS, options=options, store=store)
    answers = [answer for version in versions for answer in _of_a_snapshot(log, version, seconds)]
    answers += _store_answers(spark, log, store_folder, versions, seconds)
    DeltaLog.clear_cache()
    _release_pipes(folder)
    return answers


def _of_a_snapshot(log: DeltaLog, version: int, seconds: float) -> list[Answer]:
    opened = ask(
        "snapshot", version, lambda: log.get_snapshot_at(version, min_file_retention_timestamp=EXPIRED), seconds=seconds
    )
    if opened.value is None:
        return [opened]
    snapshot: Snapshot = opened.value
    answers = [
        ask("computed state in Spark", version, lambda: counts_of(snapshot.computed_state), seconds=seconds),
        ask(
            "scan files", version, lambda: sorted(row.path for row in snapshot.scan().files.collect()), seconds=seconds
        ),
        ask("validate checksum", version, lambda: [d.field for d in snapshot.validate_checksum()], seconds=seconds),
    ]
    frames = ask("state", version, lambda: _frames(snapshot), seconds=seconds)
    if frames.value is None:
        return [*answers, frames]
    return answers + [Answer(name, version, value=value) for name, value in frames.value.items()]


def _frames(snapshot: Snapshot) -> dict[str, list[Any]]:
    """Return the three frames of a snapshot, from one job."""
    from pyspark.sql import functions as F

    nothing, name = F.lit(None).cast("string"), F.col("path")
    state = snapshot.state.select("*", nothing.alias("live"), nothing.alias("dead"))
    nulls = [F.lit(None).cast(field.dataType).alias(field.name) for field in snapshot.state.schema]
    live = snapshot.all_files.select(*nulls, name.alias("live"), nothing.alias("dead"))
    dead = snapshot.tombstones.select(*nulls, nothing.alias("live"), name.alias("dead"))
    rows = _collected(state.unionAll(live).unionAll(dead))
    actions = [{key: values for key, values in row.items() if values is not None} for row in rows]
    return {
        "state": comparable([action for action in actions if not {"live", "dead"} & action.keys()]),
        "all files": sorted(action["live"] for action in actions if "live" in action),
        "tombstones": sorted(action["dead"] for action in actions if "dead" in action),
    }


def _store_answers(
    spark: SparkSession, log: DeltaLog, folder: Path, versions: list[int], seconds: float
) -> list[Answer]:
    store = SnapshotStore.open(spark, folder)
    first, last = versions[0], versions[-1]
    written = ask("store", None, lambda: len(store.write_range("t", log, first, last)), seconds=seconds)
    answers = [written]
    for version in versions if written.value is not None else []:
        counts = ask("stored computed state", version, partial(_stored_counts, store, version), seconds=seconds)
        answers += [counts, ask("stored state", version, partial(_stored_rows, store, version), seconds=seconds)]
        in_arrow = ask("stored files in Arrow", version, partial(_stored_in_arrow, store, version), seconds=seconds)
        answers.append(in_arrow)
    return answers


def _stored_counts(store: SnapshotStore, version: int) -> dict[str, Any]:
    return counts_of(store.computed_state("t", version))


def _stored_in_arrow(store: SnapshotStore, version: int) -> list[str]:
    """Return the live files as the driver reads them."""
    return sorted(store.read_arrow("t", version, columns=["path"])["path"].to_pylist())


def _stored_rows(store: SnapshotStore, version: int) -> list[str]:
    return rows_of(store.state("t", version, min_file_retention_timestamp=EXPIRED))


def _collected(frame: DataFrame) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = frame.toArrow().to_pylist(maps_as_pydicts="lossy")
    return rows


def rows_of(frame: DataFrame) -> list[str]:
    return comparable(_collected(frame))


def of_kind(rows: list[str], kind: str) -> list[dict[str, Any]]:
    """Return the actions of one kind, from rows of `state`."""
    actions = [json.loads(row) for row in rows]
    return [action[kind] for action in actions if kind in action]


def _release_pipes(folder: Path) -> None:
    """Release threads that wait for a writer of a pipe: they would keep the process alive."""
    for path in folder.rglob("*"):
        if stat.S_ISFIFO(path.lstat().st_mode):
            os.close(os.open(path, os.O_RDWR | os.O_NONBLOCK))
