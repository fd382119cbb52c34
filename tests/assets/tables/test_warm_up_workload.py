"""The table that warms up a session. Its exercise needs Spark: see tests/assets/spark/test_warm_up.py."""

from __future__ import annotations

import io
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from deltasnap_assets.tables import warm_up_workload
from deltasnap_assets.tables.warm_up_workload import write_table
from deltasnap_core import DeltaLog, TableLog


def test_table_has_commits_a_checkpoint_and_tombstones(tmp_path: Path) -> None:
    write_table(tmp_path)
    log = TableLog.for_path(tmp_path)
    listing = log.list()
    assert (list(listing.commits), [each.version for each in listing.checkpoints]) == ([0, 1, 2, 3, 4, 5], [2])
    assert log.condition().faults == ()
    DeltaLog.clear_cache()
    for version, files, gone in ((1, 8, 0), (2, 12, 0), (3, 15, 1), (5, 21, 3)):
        state = DeltaLog.for_table(None, tmp_path).get_snapshot_at(version=version).computed_state
        assert (state.num_of_files, state.num_of_removes, state.num_records) == (files, gone, 10 * files)
        assert state.size_in_bytes == files // 4 * 4006 if version < 3 else 0 < state.size_in_bytes < files * 1004
        assert state.metadata is not None
        assert state.metadata.id == "warm-up"


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
