"""How benchmarks measure and compare."""

from __future__ import annotations

import gc
import json
import subprocess
import sys
import time
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from benchmarks import cpu
from benchmarks.comparison import NotComparableError, moves, read_document
from benchmarks.measure import Aim, AnswersDifferError, Finding, Samples, Side, time_in_turn
from benchmarks.sizing import Costs, Fleet, load_of, recommended_poll


@pytest.fixture(autouse=True)
def no_collection(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each timing collects garbage first, of which a full test run has much."""
    monkeypatch.setattr(gc, "collect", lambda: 0)


def test_sides_are_timed_alternately_with_changing_order() -> None:
    ran: list[str] = []
    sides = {name: Side(run=partial(ran.append, name)) for name in ("a", "b")}
    times = time_in_turn(sides, 2)
    assert ran == ["a", "b", "b", "a", "a", "b"]
    assert [len(samples.values) for samples in times.values()] == [2, 2]


def test_different_results_are_detected_before_timing() -> None:
    ran: list[int] = []

    def answer(value: int) -> Side[int]:
        def run() -> int:
            ran.append(value)
            return value

        return Side(run=run, answer=lambda result: result)

    with pytest.raises(AnswersDifferError, match="ours: 1"):
        time_in_turn({"ours": answer(1), "theirs": answer(2)}, 5)
    assert len(ran) == 2


@pytest.mark.parametrize(
    ("aim", "is_met"), [(Aim(0.5), True), (Aim(0.4), False), (Aim(2, is_ratio=False), True), (None, None)]
)
def test_aim_is_of_the_ratio_of_medians_or_of_our_median(aim: Aim | None, is_met: bool | None) -> None:
    finding = Finding(question="?", ours=Samples((1.0, 2.0, 9.0)), theirs=Samples((4.0, 4.0, 1.0)), aim=aim)
    assert finding.ratio == 0.5
    assert finding.ratio_of_minima == 1.0
    assert finding.is_met is is_met


def test_processes_that_this_one_started_count() -> None:
    before = cpu.cpu_seconds()
    with subprocess.Popen([sys.executable, "-c", "while True: pass"]) as busy:
        deadline = time.monotonic() + 30
        while cpu.cpu_seconds() < before + 0.1 and time.monotonic() < deadline:
            time.sleep(0.02)
        assert cpu.cpu_seconds() >= before + 0.1
        busy.kill()


def test_process_that_ended_since_it_was_listed_counts_nothing() -> None:
    assert cpu._read(Path("/proc/self/task/0/children")) == ""


def document(ours: tuple[float, ...], *, question: str = "q", peer: bool = True, files: int = 10) -> dict[str, Any]:
    theirs = Samples(tuple(2.0 for _ in ours)) if peer else None
    found = Finding(question=question, ours=Samples(ours), theirs=theirs).to_json()
    settings = {"files": files, "commits": 1, "cores": 2, "use": "auto", "spark_config": {}}
    benchmarks = [{"name": "cold_state", "found": [found]}]
    return json.loads(json.dumps({**settings, "benchmarks": benchmarks}))  # type: ignore[no-any-return]


@pytest.mark.parametrize(
    ("after", "verdict"),
    [((1.0, 1.1, 1.2), "same"), ((1.2, 1.5, 1.6), "same"), ((1.3, 1.5, 1.6), "slower"), ((0.5, 0.6, 0.99), "faster")],
)
def test_ratio_moved_if_the_ranges_of_both_runs_do_not_overlap(after: tuple[float, ...], verdict: str) -> None:
    (move,) = moves(document((1.0, 1.1, 1.2)), document(after))
    assert move.verdict == verdict
    assert move.before is not None
    assert (move.before.low, move.before.median, move.before.high) == (0.5, 0.55, 0.6)


def test_benchmark_in_only_one_result_is_new_or_gone() -> None:
    found = moves(document((1.0,), question="old"), document((1.0,), question="new"))
    assert [(move.question, move.verdict) for move in found] == [("new", "new"), ("old", "gone")]


def test_times_without_a_counterpart_are_not_compared() -> None:
    assert moves(document((1.0,), peer=False), document((9.0,), peer=False)) == []


def test_runs_with_other_settings_are_not_compared() -> None:
    with pytest.raises(NotComparableError, match="files 10 and 20"):
        moves(document((1.0,)), document((1.0,), files=20))


def test_file_that_is_not_a_result_is_rejected(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text("{}")
    with pytest.raises(NotComparableError, match="--json"):
        moves(read_document(tmp_path / "a.json"), {})
    with pytest.raises(NotComparableError, match="cannot be read"):
        read_document(tmp_path / "b.json")


COSTS = Costs(
    tick_seconds=0.1,
    tick_seconds_a_table=0.01,
    requests_a_table=1,
    run_cpu_seconds=0.5,
    process_cpu_seconds=1.5,
    version_cpu_seconds=0.05,
    events_a_run=40,
    events_a_version=12,
    event_bytes=1_000,
)


def test_load_is_costs_times_rates() -> None:
    load = load_of(Fleet(tables=100, commits_an_hour=36, poll_seconds=10), COSTS)
    assert load.tick_seconds == pytest.approx(1.1)
    assert load.daemon_share == pytest.approx(0.11)
    assert load.requests_a_second == pytest.approx(10)
    assert load.runs_a_second == pytest.approx(1)
    assert load.cores == pytest.approx(2)
    assert load.events_a_second == pytest.approx(40)
    assert load.database_bytes_a_day == pytest.approx(40 * 86_400 * 1_000)


def test_a_run_includes_all_commits_since_the_last_tick() -> None:
    load = load_of(Fleet(tables=100, commits_an_hour=3_600, poll_seconds=50), COSTS)
    assert load.runs_a_second == pytest.approx(2)
    assert load.cores == pytest.approx(2 * 2 + 98 * 0.05)
    assert load.events_a_second == pytest.approx(2 * 40 + 98 * 12)


def test_recommended_poll_is_the_shortest_sustainable_one() -> None:
    assert recommended_poll(100, 1, COSTS, cores=4) == 5
    assert recommended_poll(1_000, 1, COSTS, cores=4) == 60  # a tick of 10 s
    assert recommended_poll(100, 3_600, COSTS, cores=8) == 120
    assert recommended_poll(100, 3_600, COSTS, cores=5) is None
    assert recommended_poll(10_000, 1, replace(COSTS, tick_seconds_a_table=1), cores=4) is None
