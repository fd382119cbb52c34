"""The parts of the time from a commit to its assets, from the events of the run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

import dagster as dg

_PROCESS_BEGAN = "Started process for run"
# The part of the delay that ends with an event. The work of a step ends with its output; the rest records it.
_PARTS = {
    "PIPELINE_ENQUEUED": "until a tick has requested a run",
    "PIPELINE_STARTING": "in the queue",
    _PROCESS_BEGAN: "a process for the run",
    "PIPELINE_START": "definitions loaded",
    "STEP_START": "between the steps",
    "ASSET_MATERIALIZATION": "recorded by Dagster",
    "STEP_SUCCESS": "recorded by Dagster",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeline:
    """The time from a commit to the last materialization of its run: parts, in order, and the seconds of each.

    steps: the seconds from the start of the first step to the end of the run.
    """

    parts: dict[str, float]
    steps: float

    @property
    def seconds(self) -> float:
        """The total."""
        return sum(self.parts.values())


def timeline(instance: dg.DagsterInstance, run_id: str, committed: float) -> Timeline:
    """Return the timeline of a run that succeeded, for a commit made at a time (s since the epoch)."""
    parts: dict[str, float] = {}
    entries = [entry for entry in instance.all_logs(run_id) if entry.dagster_event is not None]
    last = max(i for i, entry in enumerate(entries) if _kind(entry) == "ASSET_MATERIALIZATION")
    before = committed
    for entry in entries[: last + 1]:
        kind = _kind(entry)
        if kind == "STEP_OUTPUT":
            part = ((entry.dagster_event.step_key if entry.dagster_event else None) or "").rpartition("__")[2]
        elif kind in _PARTS:
            part = _PARTS[kind]
        else:
            continue
        parts[part] = parts.get(part, 0) + entry.timestamp - before
        before = entry.timestamp
    began = next(entry.timestamp for entry in entries if _kind(entry) == "STEP_START")
    ended = next(entry.timestamp for entry in entries if _kind(entry) == "PIPELINE_SUCCESS")
    return Timeline(parts=parts, steps=ended - began)


def _kind(entry: dg.EventLogEntry) -> str:
    event = entry.dagster_event
    if event is None:
        return ""
    return _PROCESS_BEGAN if (event.message or "").startswith(_PROCESS_BEGAN) else event.event_type_value


def median_parts(timelines: Sequence[Timeline]) -> dict[str, float]:
    """Return the median of each part."""
    return {part: median(line.parts.get(part, 0.0) for line in timelines) for part in timelines[0].parts}
