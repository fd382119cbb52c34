"""Builders for the tests of assets."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import dagster as dg
import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
from deltasnap_assets.definitions import build_definitions
from deltasnap_assets.demo.demo_table import grow
from deltasnap_assets.runs.refresh import refresh_table
from deltasnap_assets.settings.config import Settings
from deltasnap_assets.settings.table_settings import TableSettings

VERSIONS = 14


QUIET = {"loggers": {"console": {"config": {"log_level": "ERROR"}}}}


class App:
    """A table written by `deltalake`, its definitions and its own instance."""

    def __init__(self, folder: Path, **settings: Any) -> None:
        self.path = folder / "events"
        self.settings = Settings(
            storage=str(folder / "store"), tables=(TableSettings(name="events", path=str(self.path), **settings),)
        )
        self.table = self.settings.tables[0]
        self.defs = build_definitions(self.settings)
        self.instance = dg.DagsterInstance.ephemeral()
        self.ranges: set[range] = set()
        self.done: tuple[int, ...] = ()

    def grow(self, versions: int) -> None:
        for _ in grow(self.path, versions):
            pass

    def refresh(self, **options: Any) -> tuple[int, ...]:
        return refresh_table(self.defs, self.settings, self.table, self.instance, log_level="ERROR", **options)

    def load(self, name: str, version: int) -> Any:
        return self.defs.load_asset_value(["events", name], partition_key=str(version), instance=self.instance)

    def materialized(self, name: str) -> set[str]:
        return self.instance.get_materialized_partitions(dg.AssetKey(["events", name]))

    def metadata(self, name: str, version: int) -> dict[str, Any]:
        key = dg.AssetKey(["events", name])
        filters = dg.AssetRecordsFilter(asset_key=key, asset_partitions=[str(version)])
        (record,) = self.instance.fetch_materializations(filters, limit=1).records
        assert record.asset_materialization is not None
        return {name: entry.value for name, entry in record.asset_materialization.metadata.items()}


@pytest.fixture(scope="module")
def app(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> App:
    app = App(tmp_path_factory.mktemp("app"))
    app.grow(VERSIONS)
    app.done = app.refresh(on_event=lambda versions, _: app.ranges.add(versions))
    return app


def keys(versions: int) -> set[str]:
    return {str(version) for version in range(versions)}


def live_paths(path: Path, version: int) -> set[str]:
    from deltalake import DeltaTable

    return {Path(uri).name for uri in DeltaTable(path, version=version).file_uris()}


def evaluations(app: App, partition: str | None) -> dict[str, Any]:
    """The last result of each check recorded for that partition; None: without a partition."""
    found: dict[str, Any] = {}
    for key in app.defs.resolve_asset_graph().asset_check_keys:
        for record in app.instance.event_log_storage.get_asset_check_execution_history(key, limit=100):
            reported = record.event.dagster_event if record.event else None
            if reported is not None and reported.event_type == dg.DagsterEventType.ASSET_CHECK_EVALUATION:
                evaluation = reported.asset_check_evaluation_data
                if evaluation.partition == partition:
                    found.setdefault(key.name, evaluation)
    return found
