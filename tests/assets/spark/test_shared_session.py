"""Runs in the session of a project: its settings stay, and the results do not depend on them."""

# No `from __future__ import annotations` here: Dagster reads the annotations of inputs and rejects strings.
# ruff: noqa: I002

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import dagster as dg
import pyarrow as pa
import pytest
from dagster_pyspark import LazyPySparkResource
from pyspark.sql import SparkSession

deltalake = pytest.importorskip("deltalake")

from deltasnap_assets import LatestVersion, build_definitions  # noqa: E402
from deltasnap_assets.runs.refresh import RefreshError, refresh_table  # noqa: E402
from deltasnap_assets.settings.config import Settings, SparkSettings  # noqa: E402
from deltasnap_assets.settings.table_settings import TableSettings  # noqa: E402
from deltasnap_core.errors import PredicateError  # noqa: E402

UNLIKE_OURS = {
    "spark.sql.session.timeZone": "America/New_York",
    "spark.sql.ansi.enabled": "false",
    "spark.sql.adaptive.enabled": "true",
    "spark.sql.shuffle.partitions": "3",
}
VOLATILE = {"stored_in", "path", "storage", "log_folder"}
VERSIONS = 3


def settings_of(session: SparkSession) -> dict[str, str]:
    return {row.key: row.value for row in session.sql("SET").collect()}


@pytest.fixture
def theirs(spark: SparkSession) -> SparkSession:
    """A session as a project may have it."""
    session = spark.newSession()
    for name, value in UNLIKE_OURS.items():
        session.conf.set(name, value)
    return session


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table with times whose day is another one in New York, by day, with a checkpoint."""
    folder = tmp_path_factory.mktemp("lake") / "events"
    for number in range(VERSIONS):
        at = datetime(2026, 3, 1 + number, 2, 30, tzinfo=UTC)
        rows = pa.table({"id": [number, number + 100], "at": [at, at], "day": [at.date()] * 2})
        deltalake.write_deltalake(folder, rows, mode="append", partition_by=["day"])
        if number == 1:
            deltalake.DeltaTable(folder).create_checkpoint()
    return folder


class Project:
    """The table with a store of its own, in a project with this session or resource."""

    def __init__(
        self, path: Path, store: Path, spark: Any = None, *, versions: Any = "latest", **of_spark: Any
    ) -> None:
        session = SparkSettings(use="always", **of_spark)
        self.table = TableSettings(name="events", path=str(path), versions=versions)
        self.settings = Settings(storage=str(store), spark=session, tables=(self.table,))
        self.instance, self.spark = dg.DagsterInstance.ephemeral(), spark

    def defs(self, *assets: Any) -> dg.Definitions:
        own = dg.Definitions(assets=assets, jobs=[dg.define_asset_job("own", [*assets])] if assets else [])
        return dg.Definitions.merge(build_definitions(self.settings, spark=self.spark), own)

    def refresh(self) -> tuple[int, ...]:
        return refresh_table(self.defs(), self.settings, self.table, self.instance, log_level="ERROR")

    def metadata(self) -> dict[tuple[str, str], dict[str, Any]]:
        """The metadata of all versions, by asset and partition."""
        found = dict[tuple[str, str], dict[str, Any]]()
        for name in ("log_segment", "reconstructed_state", "computed_state", "all_files", "tombstones"):
            for record in self.instance.fetch_materializations(dg.AssetKey(["events", name]), limit=100).records:
                event = record.asset_materialization
                assert event is not None
                entries = {key: value.value for key, value in event.metadata.items() if key not in VOLATILE}
                found.setdefault((name, event.partition or ""), entries)
        return found


@pytest.mark.spark
def test_project_with_a_session_unlike_ours_keeps_its_settings_and_gets_the_same_results(
    theirs: SparkSession, path: Path, tmp_path: Path
) -> None:
    before = settings_of(theirs)
    shared = Project(path, tmp_path / "shared", theirs, versions="all")
    own = Project(path, tmp_path / "own", versions="all")
    assert shared.refresh() == own.refresh() == tuple(range(VERSIONS))
    found = shared.metadata()
    assert found == own.metadata()
    assert len(found) == 5 * VERSIONS
    assert settings_of(theirs) == before


@pytest.mark.spark
def test_input_rows_belong_to_the_session_of_the_project(theirs: SparkSession, path: Path, tmp_path: Path) -> None:
    project, before = Project(path, tmp_path / "store", theirs), settings_of(theirs)
    project.refresh()
    metadata = {"rows": True, "where": "at >= timestamp'2026-03-02 02:30:00Z'", "columns": ["id", "at"]}

    @dg.asset(ins={"rows": dg.AssetIn(["events", "all_files"], partition_mapping=LatestVersion(), metadata=metadata)})
    def ids(rows: Any) -> list[tuple[int, str]]:
        assert rows.sparkSession is theirs
        return sorted((row[0], row[1]) for row in rows.selectExpr("id", "string(at)").collect())

    result = project.defs(ids).resolve_job_def("own").execute_in_process(instance=project.instance)
    at = {number: f"2026-03-0{number} 21:30:00" for number in (1, 2)}
    assert result.output_for_node("ids") == [(1, at[1]), (2, at[2]), (101, at[1]), (102, at[2])]
    assert settings_of(theirs) == before


@pytest.mark.spark
def test_session_of_a_project_is_unchanged_if_a_query_fails(theirs: SparkSession, path: Path, tmp_path: Path) -> None:
    project = Project(path, tmp_path / "store", theirs)
    project.refresh()
    before = settings_of(theirs)
    with project.defs().get_asset_value_loader() as loader, pytest.raises(PredicateError):
        loader.load_asset_value(
            ["events", "all_files"],
            partition_key="2",
            python_type=pa.Table,
            input_definition_metadata={"rows": True, "where": "assert_true(id < 0) is null"},
        )
    assert settings_of(theirs) == before


@pytest.mark.spark
@pytest.mark.parametrize("key", [None, "my_spark"])
def test_resource_of_dagster_pyspark_gives_the_session(
    key: str | None, theirs: SparkSession, path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(SparkSession.Builder, "getOrCreate", lambda _: theirs)
    resource = LazyPySparkResource(spark_config={"spark.app.name": "theirs"})
    before = settings_of(theirs)
    if key is None:
        project = Project(path, tmp_path / "store", resource)
        defs = project.defs()
    else:
        project = Project(path, tmp_path / "store", resource=key)
        defs = dg.Definitions.merge(project.defs(), dg.Definitions(resources={key: resource}))
    dg.Definitions.validate_loadable(defs)
    done = refresh_table(defs, project.settings, project.table, project.instance, log_level="ERROR")
    assert done == (VERSIONS - 1,)
    assert settings_of(theirs) == before


def test_resource_without_a_session_is_reported(path: Path, tmp_path: Path) -> None:
    project = Project(path, tmp_path / "store", "local[*]")
    with pytest.raises(RefreshError, match=r"Expected a SparkSession, or a resource with a `spark_session`, found str"):
        project.refresh()
