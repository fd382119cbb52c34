"""A Dagster job that does nothing, for tests that need a run."""

from __future__ import annotations

import dagster as dg


@dg.op
def _nothing() -> None:
    pass


@dg.job
def idle_job() -> None:
    """Do nothing."""
    _nothing()
