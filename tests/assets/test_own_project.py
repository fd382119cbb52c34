"""A project that merges the definitions: the snippet of the README, and inputs by annotation."""

# No `from __future__ import annotations` here: Dagster reads the annotations of inputs and rejects strings.
# ruff: noqa: I002

from pathlib import Path
from typing import Any, cast

import dagster as dg
import pandas as pd
import pyarrow as pa
import pytest

pytestmark = pytest.mark.spark
pytest.importorskip("deltalake")
pl = pytest.importorskip("polars")

from pyspark.sql import DataFrame, SparkSession  # noqa: E402

from deltasnap_assets import LatestVersion, build_definitions, load_settings  # noqa: E402
from deltasnap_assets.demo.demo_table import grow  # noqa: E402
from deltasnap_assets.runs.planning.names import run_tags  # noqa: E402
from deltasnap_assets.runs.planning.partitions import version_partitions  # noqa: E402
from deltasnap_assets.runs.refresh import refresh_table  # noqa: E402
from deltasnap_core import DeltaSnapError, LogSegment, SnapshotState  # noqa: E402
from deltasnap_core.errors import PredicateError  # noqa: E402
from tests.thorough import one_in  # noqa: E402

QUIET = {"loggers": {"console": {"config": {"log_level": "ERROR"}}}}
README = Path(__file__).resolve().parents[2] / "README.md"
SNIPPET = README.read_text(encoding="utf-8").split("In your own Dagster project\n```python\n")[1].split("```")[0]


class Project:
    def __init__(self, folder: Path) -> None:
        (folder / "deltasnap.yaml").write_text("tables: [{name: events, path: events}]\nstorage: store\n")
        self.settings = load_settings(folder=folder, environment={})
        for _ in grow(folder / "events", 12):
            pass
        self.own = build_definitions(self.settings)
        self.instance = dg.DagsterInstance.ephemeral()
        refresh_table(self.own, self.settings, self.settings.tables[0], self.instance, log_level="ERROR")

    def merged(self, *assets: Any) -> dg.Definitions:
        others = dg.Definitions(assets=assets, executor=dg.multiprocess_executor)
        return dg.Definitions.merge(self.own, others)

    def run(self, asset: Any, tags: dict[str, str] | None = None) -> Any:
        own = dg.Definitions(jobs=[dg.define_asset_job("own", [asset])])
        return (
            dg.Definitions.merge(self.merged(asset), own)
            .resolve_job_def("own")
            .execute_in_process(instance=self.instance, tags=tags, run_config=QUIET, raise_on_error=True)
        )


@pytest.fixture(scope="module")
def project(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Project:
    return Project(tmp_path_factory.mktemp("project"))


def latest(name: str) -> dg.AssetIn:
    return dg.AssetIn(["events", name], partition_mapping=LatestVersion())


def test_five_lines_merge_the_tables_into_a_project(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(Path(project.settings.storage).parent)
    names: dict[str, Any] = {}
    exec(SNIPPET, names)
    defs, others = names["defs"](), dg.Definitions(executor=dg.multiprocess_executor, jobs=[])
    merged = dg.Definitions.merge(defs, others)
    dg.Definitions.validate_loadable(merged)
    assert merged.resolve_job_def("events_snapshots").executor_def is dg.in_process_executor
    assert merged.resolve_implicit_global_asset_job_def().executor_def is dg.multiprocess_executor
    files = merged.load_asset_value(["events", "all_files"], partition_key="5", python_type=pd.DataFrame)
    assert isinstance(files, pd.DataFrame)
    assert len(files) > 0
    result = merged.resolve_implicit_global_asset_job_def().execute_in_process(
        instance=project.instance, asset_selection=[dg.AssetKey("largest_files")], run_config=QUIET
    )
    assert len(result.output_for_node("largest_files")) == 10


@pytest.mark.parametrize("wanted", [DataFrame, pa.Table, pd.DataFrame, pl.DataFrame, None], ids=str)
def test_files_have_the_requested_type(project: Project, wanted: type | None) -> None:
    defs = project.merged()
    found: Any = defs.load_asset_value(["events", "all_files"], partition_key="11", python_type=wanted)
    rows = found.count() if isinstance(found, DataFrame) else len(found)
    assert type(found) is wanted or isinstance(found, wanted or DataFrame)
    expected: Any = defs.load_asset_value(["events", "computed_state"], partition_key="11", python_type=SnapshotState)
    assert rows == expected.num_of_files > 0


def test_values_have_the_requested_type(project: Project) -> None:
    defs = project.merged()
    segment: Any = defs.load_asset_value(["events", "log_segment"], partition_key="3", python_type=LogSegment)
    assert segment.version == 3


def test_inputs_have_the_annotated_type(project: Project) -> None:
    @dg.asset(ins={"files": latest("all_files"), "gone": latest("tombstones"), "state": latest("computed_state")})
    def report(files: pd.DataFrame, gone: pl.DataFrame, state: SnapshotState) -> int:  # type: ignore[name-defined]
        return len(files) - state.num_of_files + len(gone) - state.num_of_removes

    assert project.run(report).output_for_node("report") == 0


def test_range_of_versions_is_a_dict_of_the_requested_type(project: Project) -> None:
    found: list[list[int]] = []

    @dg.asset(
        ins={"files": dg.AssetIn(["events", "all_files"])},
        partitions_def=version_partitions("events"),
        backfill_policy=dg.BackfillPolicy.single_run(),
    )
    def counts(files: dict[int, pa.Table]) -> None:
        found.append([version for version, table in files.items() if table.num_rows])

    project.run(counts, run_tags("events", 2, 10))
    project.run(counts, run_tags("events", 2, 2))
    assert found == [list(range(2, 11)), [2]]


def test_unsupported_type_is_reported_with_supported_types(project: Project) -> None:
    defs = project.merged()
    expected = r"events/all_files cannot be loaded as int: expected pyspark.sql.DataFrame, pyarrow.Table, pandas.Data"
    with pytest.raises(DeltaSnapError, match=expected):
        defs.load_asset_value(["events", "all_files"], partition_key="1", python_type=int)
    with pytest.raises(DeltaSnapError, match=r"log_segment cannot be loaded as pandas.DataFrame: expected LogSegment"):
        defs.load_asset_value(["events", "log_segment"], partition_key="1", python_type=pd.DataFrame)


def rows_of_latest(**metadata: Any) -> dg.AssetIn:
    key = ["events", "all_files"]
    return dg.AssetIn(key, partition_mapping=LatestVersion(), metadata={"rows": True, **metadata})


def expected_rows(project: Project, version: int) -> Any:
    """The rows of a version as deltalake reads them, in pandas."""
    from deltalake import DeltaTable

    table = DeltaTable(project.settings.tables[0].path, version=version)
    return table.to_pyarrow_table().to_pandas().sort_values("id", ignore_index=True)


@pytest.mark.parametrize("wanted", one_in(2, [DataFrame, pa.Table, pd.DataFrame, pl.DataFrame]), ids=str)
def test_rows_of_a_version_have_the_requested_type(project: Project, wanted: type) -> None:
    metadata = {"rows": True, "where": "amount > 50", "columns": ["amount", "id"]}
    with project.merged().get_asset_value_loader() as loader:
        found: Any = loader.load_asset_value(
            ["events", "all_files"], partition_key="7", python_type=wanted, input_definition_metadata=metadata
        )
    assert isinstance(found, wanted)
    found = cast("Any", found)
    names = list(found.column_names) if isinstance(found, pa.Table) else list(found.columns)
    assert names == ["amount", "id"]
    given = found.toPandas() if isinstance(found, DataFrame) else found if wanted is pd.DataFrame else found.to_pandas()
    expected = expected_rows(project, 7).query("amount > 50")[["amount", "id"]].reset_index(drop=True)
    assert len(expected) > 0
    pd.testing.assert_frame_equal(given.sort_values("id", ignore_index=True), expected)


@pytest.mark.parametrize("rows", [{"rows": True}, {"row_changes": "of_version"}], ids=str)
def test_condition_that_fails_for_a_row_of_arrow_is_a_predicate_error(project: Project, rows: dict[str, Any]) -> None:
    metadata = {**rows, "where": "assert_true(id < 0) is null"}
    with project.merged().get_asset_value_loader() as loader, pytest.raises(PredicateError, match="is not true"):
        loader.load_asset_value(
            ["events", "all_files"], partition_key="7", python_type=pa.Table, input_definition_metadata=metadata
        )


def test_asset_gets_the_rows_of_the_latest_version(project: Project) -> None:
    @dg.asset(ins={"events": rows_of_latest(where="amount > 50", columns=["id"])})
    def ids(events: pd.DataFrame) -> list[int]:
        return sorted(events["id"])

    expected = expected_rows(project, 11).query("amount > 50")["id"]
    assert project.run(ids).output_for_node("ids") == sorted(expected)


def test_asset_with_partitions_gets_the_rows_of_each_of_its_versions(project: Project) -> None:
    found: dict[int, int] = {}

    @dg.asset(
        ins={"rows": dg.AssetIn(["events", "all_files"], metadata={"rows": True})},
        partitions_def=version_partitions("events"),
        backfill_policy=dg.BackfillPolicy.single_run(),
    )
    def counts(rows: dict[int, pa.Table]) -> None:
        found.update({version: table.num_rows for version, table in rows.items()})

    project.run(counts, run_tags("events", 4, 6))
    assert found == {version: len(expected_rows(project, version)) for version in (4, 5, 6)}
