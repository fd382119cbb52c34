"""A job of Dagster's that does nothing, where a run is needed and no matter of what."""

from __future__ import annotations

import dagster as dg


@dg.op
def _nothing() -> None:
    pass


@dg.job
def idle_job() -> None:
    """Do nothing."""
    _nothing()
