"""The resources of a run."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import dagster as dg
import pytest

from deltasnap_assets.runs.planning.names import ASSET_NAMES
from deltasnap_assets.settings.config import Settings, TableSettings
from deltasnap_assets.tables import resources


@pytest.mark.parametrize(("run", "instance"), [("r1", "i1"), ("r1", None), (None, "i1")])
def test_run_renews_its_heartbeat_as_long_as_it_has_snapshots(
    run: str | None, instance: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    events: list[Any] = []

    @contextmanager
    def heartbeat(*of: Any) -> Iterator[None]:
        events.append(of)
        yield
        events.append("over")

    monkeypatch.setattr(resources, "heartbeat", heartbeat)
    snapshots = resources.resources(Settings(storage=str(tmp_path), tables=(TableSettings(name="events", path="t"),)))[
        "snapshots"
    ].resource_fn
    of_run = None if run is None else SimpleNamespace(run_id=run, asset_selection=None)
    context = SimpleNamespace(run=of_run, instance=instance, resources=SimpleNamespace(pyspark=None), log=None)
    with contextmanager(snapshots)(context):
        assert events == ([("i1", "r1")] if run and instance else [])
    assert events[1:] == (["over"] if run and instance else [])


@pytest.mark.parametrize(("left_out", "expected"), [(None, True), ("tombstones", False)])
def test_run_of_all_assets_differs_from_a_run_of_some(left_out: str | None, expected: bool) -> None:
    selection = {dg.AssetKey(["events", name]) for name in ASSET_NAMES if name != left_out}
    run = dg.DagsterRun(job_name="events_snapshots", asset_selection=selection)
    assert resources._materializes_all(run) is expected
