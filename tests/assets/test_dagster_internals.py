"""What deltasnap expects of each name that Dagster keeps private: a test for each, which a new release must pass."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import dagster as dg
import pytest

from deltasnap_assets import dagster_internals as internals

KEY = dg.AssetKey(["events", "log_segment"])
CHECK = dg.AssetCheckKey(KEY, "fresh_table")


def status_of(instance: dg.DagsterInstance, limit: int = 1) -> list[Any]:
    return [each.status for each in instance.event_log_storage.get_asset_check_execution_history(CHECK, limit=limit)]


def planned(instance: dg.DagsterInstance) -> None:
    """Plan a check outside of a run, as the sensor does."""
    event = dg.DagsterEvent(
        event_type_value=dg.DagsterEventType.ASSET_CHECK_EVALUATION_PLANNED.value,
        event_specific_data=internals.AssetCheckEvaluationPlanned(asset_key=KEY, check_name=CHECK.name),
        job_name=internals.RUNLESS_JOB_NAME,
    )
    instance.report_dagster_event(event, run_id=internals.RUNLESS_RUN_ID)


@pytest.fixture
def instance() -> dg.DagsterInstance:
    return dg.DagsterInstance.ephemeral()


def test_asset_check_evaluation_planned_is_a_check_without_a_result(instance: dg.DagsterInstance) -> None:
    planned(instance)
    assert status_of(instance) == [internals.AssetCheckExecutionRecordStatus.PLANNED]


def test_asset_check_evaluation_target_materialization_data_links_a_result_to_a_materialization(
    instance: dg.DagsterInstance,
) -> None:
    target = internals.AssetCheckEvaluationTargetMaterializationData(storage_id=3, run_id="run", timestamp=1.5)
    found = dg.AssetCheckEvaluation(
        asset_key=KEY, check_name=CHECK.name, passed=True, metadata={}, target_materialization_data=target
    )
    instance.report_runless_asset_event(found)
    (record,) = instance.event_log_storage.get_asset_check_execution_history(CHECK, limit=1)
    assert record.evaluation is not None
    assert record.evaluation.target_materialization_data == target


def test_asset_check_execution_record_status_selects_failed_results(instance: dg.DagsterInstance) -> None:
    for passed in (True, False):
        instance.report_runless_asset_event(
            dg.AssetCheckEvaluation(asset_key=KEY, check_name=CHECK.name, passed=passed, metadata={})
        )
    failed = internals.AssetCheckExecutionRecordStatus.FAILED
    assert failed in status_of(instance, limit=2)


def test_runless_job_name_and_runless_run_id_mark_events_outside_a_run(instance: dg.DagsterInstance) -> None:
    instance.report_runless_asset_event(dg.AssetObservation(KEY))
    (record,) = instance.fetch_observations(KEY, limit=1).records
    event = record.event_log_entry
    assert (event.job_name, event.run_id) == (internals.RUNLESS_JOB_NAME, internals.RUNLESS_RUN_ID)


def test_asset_execution_type_makes_an_asset_that_a_run_observes(instance: dg.DagsterInstance) -> None:
    @dg.op(out=dg.Out(dg.Nothing))
    def observe(context) -> None:  # type: ignore[no-untyped-def]  # Dagster rejects a string
        context.log_event(dg.AssetObservation("t"))

    kind = internals.AssetExecutionType.OBSERVATION
    asset: dg.AssetsDefinition = dg.AssetsDefinition(
        keys_by_output_name={"result": dg.AssetKey("t")}, node_def=observe, execution_type=kind
    )
    defs = dg.Definitions([asset])
    assert defs.resolve_asset_graph().external_asset_keys == {dg.AssetKey("t")}


def test_unresolved_asset_job_definition_is_what_define_asset_job_returns() -> None:
    job = dg.define_asset_job("own", dg.AssetSelection.all())
    assert isinstance(job, internals.UnresolvedAssetJobDefinition)


def test_definitions_load_context_is_set_while_code_is_loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "loaded.py").write_text(
        "import dagster as dg\n"
        "from deltasnap_assets.dagster_internals import DefinitionsLoadContext\n"
        "@dg.definitions\n"
        "def defs():\n"
        "    return dg.Definitions(metadata={'is_set': DefinitionsLoadContext.is_set()})\n"
    )
    from dagster._core.code_pointer import CodePointer
    from dagster._core.definitions.reconstruct import initialize_repository_def_from_pointer

    monkeypatch.setattr(internals.DefinitionsLoadContext, "_instance", None)
    repository = initialize_repository_def_from_pointer(
        CodePointer.from_python_file(str(tmp_path / "loaded.py"), "defs", str(tmp_path))
    )
    assert (repository.metadata or {})["is_set"].value is True


def test_defs_state_management_type_has_the_one_that_dagster_keeps_in_memory() -> None:
    from dagster.components import DefsStateConfigArgs

    in_memory = DefsStateConfigArgs.legacy_code_server_snapshots().management_type
    assert in_memory is internals.DefsStateManagementType.LEGACY_CODE_SERVER_SNAPSHOTS


def test_translation_fn_and_translation_fn_resolver_change_a_spec_by_the_keys_of_a_file() -> None:
    class Translated(dg.Model, dg.Resolvable):
        translation: Annotated[
            internals.TranslationFn[str], internals.TranslationFnResolver(lambda name: {"name": name})
        ]

    made = Translated.resolve_from_yaml(json.dumps({"translation": {"group_name": "of_{{ name }}"}}))
    assert made.translation(dg.AssetSpec("t"), "lake").group_name == "of_lake"


def test_check_error_is_raised_where_a_step_has_no_code_location() -> None:
    raised = list[Exception]()

    @dg.op
    def asks(context) -> None:  # type: ignore[no-untyped-def]  # Dagster rejects a string
        try:
            _ = context.repository_def
        except internals.CheckError as error:
            raised.append(error)

    @dg.job
    def own() -> None:
        asks()

    own.execute_in_process()
    assert len(raised) == 1


def test_dagster_library_registry_shows_the_release_of_deltasnap() -> None:
    import deltasnap_assets.all_definitions  # noqa: F401
    from deltasnap_core import __version__

    assert internals.DagsterLibraryRegistry.get()["dagster-deltasnap"] == __version__


def test_each_name_has_a_test() -> None:
    tests = Path(__file__).read_text(encoding="utf-8")
    assert [name for name in internals.__all__ if f"internals.{name}" not in tests] == []
