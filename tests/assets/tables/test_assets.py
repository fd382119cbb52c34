from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import dagster as dg
import pytest

pytestmark = pytest.mark.spark
pytest.importorskip("deltalake")

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

from deltasnap_assets.settings.table_settings import ASSET_NAMES  # noqa: E402
from deltasnap_assets.tables.pages.table_observation import health_of  # noqa: E402
from tests.assets.followed_table import EVENTS  # noqa: E402
from tests.assets.tables.assets_builders import VERSIONS, App, app, evaluations, keys, live_paths  # noqa: E402
from tests.thorough import one_in  # noqa: E402

__all__ = ["app"]


def test_refresh_materializes_every_version_of_every_asset(app: App) -> None:
    assert app.done == tuple(range(VERSIONS))
    assert {name: app.materialized(name) for name in ASSET_NAMES} == dict.fromkeys(ASSET_NAMES, keys(VERSIONS))
    assert app.ranges == {range(VERSIONS)}


@pytest.mark.parametrize("version", one_in(5, reversed(range(VERSIONS))))
def test_stored_files_match_deltalake(app: App, version: int) -> None:
    rows = app.load("all_files", version).select("path").collect()
    assert {Path(row.path).name for row in rows} == live_paths(app.path, version)
    assert app.metadata("all_files", version)["dagster/partition_row_count"] == len(rows)
    assert app.metadata("computed_state", version)["num_of_files"] == len(rows)


def test_every_asset_can_be_loaded(app: App) -> None:
    assert app.load("log_segment", 3).version == 3
    assert app.load("computed_state", 3).num_of_files == len(live_paths(app.path, 3))
    assert app.load("reconstructed_state", 3).where("protocol is not null").count() == 1
    assert app.load("tombstones", 7).count() == app.metadata("tombstones", 7)["dagster/partition_row_count"] > 0


@pytest.mark.parametrize("name", ["reconstructed_state", "computed_state", "all_files", "tombstones"])
def test_metadata_names_the_engine_of_a_version(app: App, name: str) -> None:
    assert app.metadata(name, 0)["computed_by"].startswith("Spark ")
    assert app.metadata(name, VERSIONS - 1)["computed_by"].startswith("driver: ")


def test_metadata_shows_the_changes_of_a_version(app: App) -> None:
    reported = app.metadata("reconstructed_state", 6)
    assert reported["operation"] == "DELETE"
    assert reported["engine"].startswith("delta-rs")
    assert reported["removed_files"] > 0
    assert "`day=" in reported["sample_of_changes"]


def outcomes(app: App, partition: str | None) -> dict[str, bool]:
    """Whether each check recorded for that partition passed; None: without a partition."""
    return {name: evaluation.passed for name, evaluation in evaluations(app, partition).items()}


def test_checks_are_evaluated_once_per_run(app: App) -> None:
    found = outcomes(app, None)
    unsure = ("small_files", "tombstone_ratio", "steady_growth")
    assert found == {
        **{name: found[name] for name in unsure if name in found},
        "contiguous_log": True,
        "readable_checkpoint": True,
        "checkpoint_lag": True,
        "readable_protocol": True,
        "fresh_table": True,
        "cleanup_orphans": True,
        "statistics_coverage": True,
        "even_partitions": True,
        "expired_tombstones": True,
        "schema_unchanged": True,
    }


def test_checks_of_versions_have_a_result_for_each_that_can_be_compared(app: App) -> None:
    found = [outcomes(app, str(version)) for version in range(VERSIONS)]
    assert [each.get("schema_unchanged") for each in found] == [None] + [True] * (VERSIONS - 1)
    assert not any("steady_growth" in each for each in found[:6])


def test_table_observation_describes_its_newest_version(app: App) -> None:
    (record,) = app.instance.fetch_observations(dg.AssetKey(["events", "delta_log"]), limit=1).records
    seen = record.asset_observation
    assert seen is not None
    assert seen.data_version == str(VERSIONS - 1)
    assert {"health", "num_of_files", "bytes_by_partition", "schema", "operations"} <= set(seen.metadata)
    assert seen.metadata["num_of_files"].value == len(live_paths(app.path, VERSIONS - 1))
    assert health_of(app.instance, EVENTS) == " ".join(str(seen.metadata["health"].value).split())


def test_page_of_the_newest_version_shows_files_and_tombstones(app: App) -> None:
    newest = VERSIONS - 1
    assert "bytes_by_partition" in app.metadata("all_files", newest)
    assert app.metadata("tombstones", newest)["vacuum_would_free_now"].startswith("no file expired")
    assert "contents" in app.metadata("tombstones", newest)
    assert app.metadata("reconstructed_state", newest)["changed_besides_files"] == "nothing"


def test_plain_parquet_is_written_if_configured(spark: SparkSession, tmp_path: Path) -> None:
    app = App(tmp_path, materialize_as="table")
    app.grow(2)
    app.refresh()
    assert len(list((tmp_path / "store").rglob("all_files/version=1/*.parquet"))) == 1


def test_session_outlives_loading_a_value_without_an_instance(app: App, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DAGSTER_HOME", raising=False)
    files: Any = app.defs.load_asset_value(["events", "all_files"], partition_key="5")
    assert files.count() > 0
