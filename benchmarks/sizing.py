"""The load of a fleet on the daemon, the storage, Dagster's database and the machines that run it.

A model of a few lines: measured costs of one table, one run, one version and one event, multiplied by their rates.
`fleet_sizing` measures the costs, and compares the model's tick with measured ticks.
"""

from __future__ import annotations

from dataclasses import dataclass

DAY_SECONDS = 86_400
BUSY = 0.3
"""The share of the time between two ticks that a tick may take. Dagster's daemon has other sensors to evaluate."""
POLLS = (5, 10, 15, 30, 60, 120, 300, 600, 1_800, 3_600)


@dataclass(frozen=True, slots=True, kw_only=True)
class Costs:
    """Measured costs.

    tick_seconds, tick_seconds_a_table: of a tick without new commits, wall time.
    requests_a_table: requests to the storage for a table in such a tick.
    run_cpu_seconds:  CPU of a run of one version, without the start of its process. process_cpu_seconds: of that start.
    version_cpu_seconds: CPU of each further version of a run.
    events_a_run: rows in Dagster's event log for a run of one version. events_a_version: for each further version.
    event_bytes: of one of them, with its indexes.
    """

    tick_seconds: float
    tick_seconds_a_table: float
    requests_a_table: float
    run_cpu_seconds: float
    process_cpu_seconds: float
    version_cpu_seconds: float
    events_a_run: float
    events_a_version: float
    event_bytes: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Fleet:
    """Tables with the same settings. commits_an_hour: of each table."""

    tables: int
    commits_an_hour: float
    poll_seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """The load of a fleet.

    tick_seconds:       a tick. daemon_share: tick_seconds as a share of `poll_seconds`; more than 1: ticks fall behind.
    requests_a_second:  to the storage, for polls.
    runs_a_second:      at most one for each table and tick: a run takes all commits since the last tick.
    cores:              busy with runs. events_a_second, database_bytes_a_day: of Dagster's event log.
    """

    tick_seconds: float
    daemon_share: float
    requests_a_second: float
    runs_a_second: float
    cores: float
    events_a_second: float
    database_bytes_a_day: float


def load_of(fleet: Fleet, costs: Costs) -> Load:
    """Return the load of a fleet. Commits arrive evenly, and each version is recorded."""
    tick = costs.tick_seconds + costs.tick_seconds_a_table * fleet.tables
    versions = fleet.tables * fleet.commits_an_hour / 3_600
    runs = min(versions, fleet.tables / fleet.poll_seconds)
    events = runs * costs.events_a_run + (versions - runs) * costs.events_a_version
    cpu = runs * (costs.process_cpu_seconds + costs.run_cpu_seconds) + (versions - runs) * costs.version_cpu_seconds
    return Load(
        tick_seconds=tick,
        daemon_share=tick / fleet.poll_seconds,
        requests_a_second=fleet.tables * costs.requests_a_table / fleet.poll_seconds,
        runs_a_second=runs,
        cores=cpu,
        events_a_second=events,
        database_bytes_a_day=events * DAY_SECONDS * costs.event_bytes,
    )


def recommended_poll(tables: int, commits_an_hour: float, costs: Costs, *, cores: float) -> float | None:
    """Return the shortest of POLLS at which a tick takes at most BUSY of it and the runs fit on `cores`; None: none."""
    for poll in POLLS:
        load = load_of(Fleet(tables=tables, commits_an_hour=commits_an_hour, poll_seconds=poll), costs)
        if load.daemon_share <= BUSY and load.cores <= cores:
            return poll
    return None
