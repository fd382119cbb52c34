"""The table that warms up a session. Its exercise needs Spark: see tests/assets/spark/test_warm_up.py."""

from __future__ import annotations

import io
import json
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow.parquet as pq
import pytest

from deltasnap_assets.tables import warm_up_workload
from deltasnap_assets.tables.warm_up_workload import write_table
from deltasnap_core import DeltaLog, SnapshotOptions, TableLog
from tests.without_spark import log_without_spark

ROWS = ("all_files", "tombstones", "state")


def test_table_has_commits_a_checkpoint_and_tombstones(tmp_path: Path) -> None:
    write_table(tmp_path)
    log = TableLog.for_path(tmp_path)
    listing = log.list()
    assert (list(listing.commits), [each.version for each in listing.checkpoints]) == ([0, 1, 2, 3, 4, 5], [2])
    assert log.condition().faults == ()
    DeltaLog.clear_cache()
    for version, files, gone in ((0, 4, 0), (1, 8, 0), (2, 12, 0), (3, 15, 1), (5, 21, 3)):
        state = DeltaLog.for_table(None, tmp_path).get_snapshot_at(version=version).computed_state
        assert (state.num_of_files, state.num_of_removes, state.num_records) == (files, gone, 10 * files)
        assert state.size_in_bytes == files // 4 * 4006 if version < 3 else 0 < state.size_in_bytes < files * 1004
        assert state.metadata is not None
        assert state.metadata.id == "warm-up"


def test_checkpoint_has_the_actions_of_its_version(tmp_path: Path) -> None:
    write_table(tmp_path)
    log = tmp_path / "_delta_log"
    lines = [line for version in range(3) for line in (log / f"{version:020}.json").read_text().splitlines()]
    logged = [action for action in map(json.loads, lines) if "commitInfo" not in action]
    rows = pq.read_table(log / f"{2:020}.checkpoint.parquet").to_pylist(maps_as_pydicts="strict")
    held = [{name: value for name, value in row.items() if value is not None} for row in rows]
    assert held[1]["metaData"].pop("configuration") is None  # a writer may leave it out
    assert logged[1]["metaData"].pop("configuration") == {}
    assert held == logged


def test_exercise_reads_and_stores_versions_on_spark_as_a_run_does(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Any] = []
    folders = []

    def for_table(_: object, path: str, options: SnapshotOptions) -> Any:
        table = TableLog.for_path(path)
        assert table.list().latest_version == 5
        folders.append(Path(path))
        rows = {name: SimpleNamespace(collect=partial(made.append, name)) for name in ROWS}
        state = log_without_spark(table).snapshot.computed_state
        made.append(options.engine)
        return SimpleNamespace(name="the log", snapshot=SimpleNamespace(computed_state=state, **rows))

    def open_store(_: object, path: str, engine: str) -> Any:
        assert Path(path).parent == folders[0].parent
        made.append(engine)
        return SimpleNamespace(
            write_range=lambda name, log, *versions, **options: made.append((name, log.name, *versions, options)),
            file_breakdown=lambda name, version: made.append((name, version)),
        )

    monkeypatch.setattr(warm_up_workload, "DeltaLog", SimpleNamespace(for_table=for_table))
    monkeypatch.setattr(warm_up_workload, "SnapshotStore", SimpleNamespace(open=open_store))
    session: Any = "session"
    assert warm_up_workload.exercise(session) == 21
    assert not folders[0].parent.exists()
    assert made == [
        "spark",
        *ROWS,
        "spark",
        ("table", "the log", 2, 4, {"materialize_as": "table"}),
        ("table", 4),
        ("table", "the log", 5, 5, {}),
        ("table", 5),
    ]


@pytest.mark.parametrize(("config", "has_java"), [({}, True), ({"spark.remote": "sc://127.0.0.1:7"}, False)])
def test_workload_runs_in_a_session_with_the_given_settings(
    config: dict[str, str], has_java: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    done: list[Any] = []

    def exercise(session: Any) -> int:
        done.append(session)
        return 21

    sessions = SimpleNamespace(config=lambda map: SimpleNamespace(getOrCreate=lambda: map))  # noqa: A006
    monkeypatch.setattr(warm_up_workload, "SparkSession", SimpleNamespace(builder=sessions))
    monkeypatch.setattr(warm_up_workload, "use_java", lambda: done.append("java"))
    monkeypatch.setattr(warm_up_workload, "exercise", exercise)
    monkeypatch.setattr("sys.stdin", io.StringIO(json.dumps(config)))
    monkeypatch.setattr("sys.argv", ["warm_up_workload", "2"])
    warm_up_workload.main()
    assert done == [*(["java"] if has_java else []), config, config]
    assert [line.partition(",")[0] for line in capsys.readouterr().out.splitlines()] == ["21 files"] * 2
