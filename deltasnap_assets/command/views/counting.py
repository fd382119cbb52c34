"""The part of `deltasnap inspect` that loads PySpark, and tables on Spark. Separate, so that the rest is printed first.

A version small enough for one process does not start Spark.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from deltasnap_assets.command.table_on_spark import delta_log_of, spark_aside
from deltasnap_assets.command.views.inspection import InspectedVersion
from deltasnap_core import Snapshot
from deltasnap_core.support import compare_with_log


def count(facts: InspectedVersion, storage_options: Mapping[str, Any]) -> tuple[Snapshot, tuple[str, ...]]:
    """Return the version with its computed state, and the fields in which its checksum differs from that state.

    Output of Spark, if it is needed, does not reach the terminal.

    Errors: UnsupportedProtocolError, JavaError if Spark is needed and cannot start, and the errors of a damaged log.
    """
    with spark_aside(facts.path):
        snapshot = delta_log_of(facts.path, storage_options).get_snapshot_at(version=facts.segment.version)
        state, checksum = snapshot.computed_state, snapshot.checksum
        found = () if checksum is None else compare_with_log(checksum, state)
        return snapshot, tuple(difference.field for difference in found)
