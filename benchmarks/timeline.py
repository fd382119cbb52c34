"""Where the seconds of a Dagster run go, from its events."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

import dagster as dg

_STAGES = {
    "PIPELINE_ENQUEUED": "recorded",
    "PIPELINE_STARTING": "queue and launcher",
    "PIPELINE_START": "worker process and definitions",
    "PIPELINE_SUCCESS": "end of the run",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeline:
    """A run that succeeded: stages, in order, and the seconds of each; they sum up to those from request to success."""

    stages: dict[str, float]

    @property
    def seconds(self) -> float:
        """From request to success."""
        return sum(self.stages.values())


def timeline(instance: dg.DagsterInstance, run_id: str, requested: float) -> Timeline:
    """Return the timeline of a run that was requested at a time (s since the epoch)."""
    stages: dict[str, float] = {}
    before = requested
    for entry in instance.all_logs(run_id):
        event = entry.dagster_event
        if event is None:
            continue
        match event.event_type_value:
            case "STEP_START":
                stage = "between the steps"
            case "STEP_SUCCESS":
                stage = f"step {(event.step_key or '').rpartition('__')[2]}"
            case kind if kind in _STAGES:
                stage = _STAGES[kind]
            case _:
                continue
        stages[stage] = stages.get(stage, 0) + entry.timestamp - before
        before = entry.timestamp
    return Timeline(stages=stages)


def median_stages(timelines: Sequence[Timeline]) -> dict[str, float]:
    """The median of each stage."""
    return {stage: median(line.stages.get(stage, 0.0) for line in timelines) for stage in timelines[0].stages}
