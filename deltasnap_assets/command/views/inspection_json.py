"""The output of `deltasnap inspect --json`."""

from __future__ import annotations

from typing import Any

from deltasnap_assets.command.views.history import history_json
from deltasnap_assets.command.views.inspection import Counted, InspectedVersion
from deltasnap_assets.quantities import iso_time
from deltasnap_core import TableCondition


def inspection_json(
    facts: InspectedVersion, counted: Counted | None, condition: TableCondition, error: str | None
) -> dict[str, Any]:
    """Return the facts about a version as JSON.

    counted: None if the replay did not run. condition: of the table. error: why something is missing; None: complete.
    """
    return {
        "path": facts.path,
        "version": facts.segment.version,
        "committedAt": iso_time(facts.timestamp_ms),
        "earliestVersion": facts.earliest,
        "latestVersion": facts.latest,
        "protocol": facts.protocol.to_json(),
        "metadata": facts.metadata.to_json(),
        "logSegment": facts.segment.to_json(),
        "state": None if counted is None else counted.state.to_json(),
        "computedBy": None if counted is None else counted.computed_by,
        "history": history_json(facts.history),
        "condition": condition.to_json(),
        "error": error,
    }
