"""The events of a failed asset run contain no credentials, for any kind of failure."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import dagster as dg

from deltasnap_assets.settings.table_settings import TableSettings
from deltasnap_assets.tables.assets.io_manager import IO_MANAGER_KEY
from deltasnap_assets.tables.assets.table_assets import table_assets

SECRET = "hunter2"  # not in the line that raises, which a stack trace shows


class Refusing:
    """Snapshots on a storage that rejects every request with its own message."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        raise OSError(f"s3://me:{SECRET}@lake/events refuses")


def test_failure_of_an_asset_is_recorded_without_its_credentials(tmp_path: Path) -> None:
    assets = table_assets(TableSettings(name="events", path=str(tmp_path)))
    with dg.DagsterInstance.ephemeral() as instance:
        instance.add_dynamic_partitions("events_versions", ["0"])
        run = dg.materialize(
            assets,
            instance=instance,
            selection=[dg.AssetKey(["events", "log_segment"])],
            partition_key="0",
            resources={"snapshots": Refusing(), IO_MANAGER_KEY: dg.mem_io_manager},
            raise_on_error=False,
        )
        recorded = [event.message for event in instance.all_logs(run.run_id)]
        recorded += [str(event.dagster_event) for event in instance.all_logs(run.run_id)]
    assert not run.success
    assert any("lake/events refuses" in text for text in recorded)
    assert not any(SECRET in text for text in recorded)
