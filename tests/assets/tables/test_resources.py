"""The resources of a run."""

from __future__ import annotations

import dagster as dg
import pytest

from deltasnap_assets.settings.table_settings import ASSET_NAMES
from deltasnap_assets.tables import resources


@pytest.mark.parametrize(("left_out", "expected"), [(None, True), ("tombstones", False)])
def test_run_of_all_assets_differs_from_a_run_of_some(left_out: str | None, expected: bool) -> None:
    selection = {dg.AssetKey(["events", name]) for name in ASSET_NAMES if name != left_out}
    run = dg.DagsterRun(job_name="events_snapshots", asset_selection=selection)
    assert resources._materializes_all(run) is expected
