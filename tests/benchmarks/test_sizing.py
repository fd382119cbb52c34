from __future__ import annotations

from dataclasses import replace

import pytest

from benchmarks.sizing import Costs, Fleet, load_of, recommended_poll

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
