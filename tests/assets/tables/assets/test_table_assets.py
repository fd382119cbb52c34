"""Everything that refreshes of a table record: the pages of its assets, the results of its checks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import dagster as dg
import pytest

from deltasnap_assets.checks.registry import VERSION_CHECKS
from deltasnap_assets.runs.failure_reason import failure_reason
from deltasnap_assets.runs.planning.names import job_name, run_tags, table_key
from deltasnap_assets.runs.planning.plan import lost_text
from deltasnap_assets.settings.table_settings import ASSET_NAMES, TableSettings
from deltasnap_assets.tables.assets import cleaned_up_versions
from deltasnap_assets.tables.assets.cleaned_up_versions import without_cleaned_up
from deltasnap_core import DeltaSnapError
from tests.assets.followed_table import EVENTS
from tests.assets.runs.refresh_builders import Refreshed
from tests.assets.tables.pages.pictures_builders import texts
from tests.builders import VECTOR_AT_4, add, commit_info, metadata, protocol, remove, write_log
from tests.driver_bases import use_driver_bases
from tests.snapshots import assert_snapshot

FEATURES = {"readerFeatures": ["deletionVectors"], "writerFeatures": ["deletionVectors"]}
MERGE = commit_info(
    "MERGE",
    userName="ada",
    engineInfo="spark",
    userMetadata="job 7",
    operationParameters={"mode": "Append"},
    operationMetrics={"numOutputRows": "3"},
)


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Refreshed]:
    """A table whose versions 0 and 1 were refreshed in one run, 2 to 4 in the next, and 5 in the last one."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        use_driver_bases(monkeypatch)
        folder = tmp_path_factory.mktemp("lake")
        table = Refreshed(folder, checks={"fresh_within_hours": 1e6})
        table.write(0, 1)
        table.refresh()
        file = add("id=1/2.parquet", size=2000, stats='{"numRecords": 3}', partitionValues={"id": "1"})
        held = [remove("id=1/2.parquet", size=2000), {"add": {**file["add"], "deletionVector": VECTOR_AT_4}}]
        start = [protocol(3, 7, **FEATURES), metadata(configuration={"a": "1"}, partitionColumns=["id"])]
        write_log(
            table.path,
            {
                2: [MERGE, *start, file, remove("a0.parquet", size=1)],
                3: [metadata(configuration={"a": "2", "b": "3"}, partitionColumns=["id"])],
                4: [commit_info("VACUUM END", operationParameters={"status": "COMPLETED"}), *held],
            },
        )
        table.refresh()
        write_log(table.path, {5: [add("id=1/5.parquet", stats="{}", partitionValues={"id": "1"})]})
        table.refresh()
        yield table


def shown(entries: Mapping[str, Any], table: Refreshed) -> dict[str, object]:
    """Return metadata as plain values: the texts of a picture, pairs of Markdown, times and assets with their kind."""
    return {name: _shown(entry, str(table.path)) for name, entry in entries.items()}


def _shown(entry: Any, folder: str) -> object:
    match entry:
        case dg.MarkdownMetadataValue(value) if str(value).startswith("!["):
            return [str(value)[2:].partition("]")[0], *texts(str(value))]
        case dg.MarkdownMetadataValue(value):
            return "Markdown", value
        case dg.TimestampMetadataValue():
            return "time", entry.value
        case dg.DagsterAssetMetadataValue():
            return "asset", entry.asset_key.to_user_string()
        case dg.TableSchemaMetadataValue():
            columns = entry.schema.columns
            return [(each.name, each.type, each.constraints.nullable, each.constraints.other) for each in columns]
        case dg.TextMetadataValue(str(text)):
            return text.replace(folder, "EVENTS")
    return entry.value


def materialized(table: Refreshed, name: str) -> dict[str, dict[str, object]]:
    """Return the last metadata of an asset, by version."""
    records = table.instance.fetch_materializations(dg.AssetKey(["events", name]), limit=20).records
    events = [record.asset_materialization for record in reversed(records)]
    return {str(event.partition): shown(event.metadata, table) for event in events if event is not None}


@pytest.mark.parametrize("name", ASSET_NAMES)
def test_page_of_a_version_is_complete_with_its_changes(table: Refreshed, name: str) -> None:
    pages = {version: page for version, page in materialized(table, name).items() if version in "0234"}
    assert_snapshot(Path(__file__).with_name(f"{name}.json"), pages)


def test_page_of_the_table_is_complete(table: Refreshed) -> None:
    records = table.instance.fetch_observations(table_key(EVENTS), limit=20).records
    pages = [record.asset_observation for record in records if record.asset_observation is not None]
    seen = next(page for page in pages if page.data_version == "4")
    assert seen.tags == {"dagster/data_version": "4", "deltasnap/generation": "table-id"}
    assert seen.description == "Latest version: 4"
    assert_snapshot(Path(__file__).with_name("table.json"), shown(seen.metadata, table))


def recorded(instance: dg.DagsterInstance, name: str) -> list[str]:
    """Return the partitions of the materializations of an asset, as recorded."""
    records = instance.fetch_materializations(dg.AssetKey(["events", name]), limit=100, ascending=True).records
    return [str(record.partition_key) for record in records]


@pytest.mark.parametrize("name", ASSET_NAMES)
def test_newest_version_of_a_run_is_recorded_last(table: Refreshed, name: str) -> None:
    events = recorded(table.instance, name)
    assert (sorted(events[:2]), events[2], sorted(events[3:6]), events[6:]) == (
        ["0", "1"],
        "1",
        ["2", "3", "4"],
        ["4", "5"],
    )


@pytest.mark.parametrize("name", ASSET_NAMES)
def test_last_event_of_an_asset_has_the_entries_of_the_newest_version(table: Refreshed, name: str) -> None:
    filters = dg.AssetRecordsFilter(asset_key=dg.AssetKey(["events", name]), asset_partitions=["4"])
    of_4 = table.instance.fetch_materializations(filters, limit=2).records
    again, before = [record.asset_materialization for record in of_4]
    assert again is not None
    assert before is not None
    assert again.metadata == before.metadata


WARN, ERROR = dg.AssetCheckSeverity.WARN, dg.AssetCheckSeverity.ERROR
RESULTS: dict[tuple[str, str | None], tuple[bool, Any, dict[str, float]]] = {
    ("contiguous_log", None): (True, ERROR, {"missing_versions": 0}),
    ("readable_checkpoint", None): (True, ERROR, {"damaged_checkpoints": 0}),
    ("readable_protocol", None): (True, ERROR, {"min_reader_version": 3}),
    ("checkpoint_lag", None): (True, WARN, {"commits_since_checkpoint": 5}),
    ("small_files", None): (True, WARN, {"small_file_ratio": 1.0, "small_files": 2}),
    ("tombstone_ratio", None): (True, WARN, {"tombstone_ratio": 0.5, "tombstones": 2}),
    ("statistics_coverage", None): (True, WARN, {"files_without_statistics": 0, "statistics_ratio": 1.0}),
    ("expired_tombstones", None): (True, WARN, {"expired_bytes": 1, "expired_files": 1}),
    ("even_partitions", None): (True, WARN, {"partition_skew": 2.0}),
    ("fresh_table", None): (True, WARN, {"hours_expected": 1e6}),
    ("cleanup_orphans", None): (True, WARN, {"cleanup_orphans": 0}),
    ("schema_unchanged", None): (False, WARN, {"versions_failed": 1, "versions_judged": 3}),
    ("schema_unchanged", "1"): (True, WARN, {"schema_changes": 0}),
    ("schema_unchanged", "2"): (False, WARN, {"schema_changes": 1}),
    ("schema_unchanged", "3"): (True, WARN, {"schema_changes": 0}),
    ("schema_unchanged", "4"): (True, WARN, {"schema_changes": 0}),
}


def results(table: Refreshed) -> dict[tuple[str, str | None], list[Any]]:
    """Return the results of each check and partition, the latest first."""
    found: dict[tuple[str, str | None], list[Any]] = {}
    for key in table.defs.resolve_asset_graph().asset_check_keys:
        for record in table.instance.event_log_storage.get_asset_check_execution_history(key, limit=100):
            event = record.event.dagster_event if record.event else None
            if event is not None and event.event_type is dg.DagsterEventType.ASSET_CHECK_EVALUATION:
                result = event.asset_check_evaluation_data
                found.setdefault((key.name, result.partition), []).append(result)
    return found


def test_results_of_checks_have_their_numbers(table: Refreshed) -> None:
    shown: dict[tuple[str, str | None], object] = {}
    for (name, partition), found in results(table).items():
        result = found[-2] if partition is None and name != "even_partitions" else found[-1]  # of the second run
        numbers = {name: entry.value for name, entry in result.metadata.items()}
        numbers.pop("hours_since_last_commit", None)
        shown[name, partition] = (result.passed, result.severity, numbers)
    assert shown == RESULTS


def test_failure_of_a_version_ends_when_a_later_version_passes(table: Refreshed) -> None:
    again, first = results(table)["schema_unchanged", "2"]
    assert (first.passed, again.passed) == (False, True)
    assert again.description == "Version 5 passes again."
    assert first.target_materialization_data is not None


def test_result_of_a_run_is_the_worst_of_its_versions(table: Refreshed) -> None:
    last, worst, first = results(table)["schema_unchanged", None]
    assert [each.passed for each in (first, worst, last)] == [True, False, True]
    assert worst.description == (
        "Version 2 changed the schema: partitioned by id, was nothing.\n\n"
        "What to do: Check that readers of the table support the new schema."
    )


def test_checks_without_a_version_judge_the_newest_one(table: Refreshed) -> None:
    names = {check.name for check in VERSION_CHECKS}
    keys = {dg.AssetCheckKey(dg.AssetKey(["events", "computed_state"]), name) for name in names}
    job = table.defs.resolve_implicit_global_asset_job_def().get_subset(asset_check_selection=keys)
    result = job.execute_in_process(instance=table.instance, raise_on_error=False)
    assert result.success
    found = {(each.check_name, each.partition): each for each in result.get_asset_check_evaluations()}
    assert found.keys() >= {("schema_unchanged", "5"), ("schema_unchanged", None)}
    assert found["schema_unchanged", "5"].target_materialization_data is not None
    of_run = found["schema_unchanged", None]
    assert (of_run.passed, of_run.description) == (True, "The schema did not change.")


def test_run_whose_versions_have_no_partition_any_more_fails_with_the_reason(table: Refreshed) -> None:
    job = table.defs.resolve_job_def(job_name("events"))
    with dg.DagsterInstance.ephemeral() as instance:  # as after a prune, if a user repeats an old run
        result = job.execute_in_process(instance=instance, tags=run_tags("events", 2, 4), raise_on_error=False)
        reason = failure_reason(instance, result.run_id)
    assert reason.startswith("No version of this run has a partition any more: they were pruned, or")


def test_run_without_a_version_fails_with_advice(table: Refreshed) -> None:
    result = table.defs.resolve_job_def(job_name("events")).execute_in_process(
        instance=table.instance, raise_on_error=False
    )
    assert failure_reason(table.instance, result.run_id).startswith("This run has no partition: choose the version")


@pytest.mark.parametrize("name", ASSET_NAMES)
def test_asset_without_a_version_fails_with_advice(table: Refreshed, name: str) -> None:
    job = table.defs.resolve_implicit_global_asset_job_def()
    result = job.execute_in_process(
        instance=table.instance, asset_selection=[dg.AssetKey(["events", name])], raise_on_error=False
    )
    assert failure_reason(table.instance, result.run_id).startswith("This run has no partition: choose the version")


def test_run_without_a_version_is_not_retried(table: Refreshed) -> None:
    job = table.defs.resolve_implicit_global_asset_job_def()
    settings = {"run_retries": {"enabled": True, "max_retries": 2}}
    with dg.DagsterInstance.ephemeral(settings=settings) as instance:
        selection = [dg.AssetKey(["events", "all_files"])]
        result = job.execute_in_process(instance=instance, asset_selection=selection, raise_on_error=False)
        run = instance.get_run_by_id(result.run_id)
    assert run is not None
    assert run.tags["dagster/will_retry"] == "false"


@pytest.mark.parametrize(
    "metadata", [{}, {"rows": True}, {"row_changes": "of_version"}], ids=["files", "rows", "changes"]
)
def test_input_of_a_version_that_never_existed_says_so(table: Refreshed, metadata: dict[str, Any]) -> None:
    never = dg.AssetIn(
        ["events", "all_files"], partition_mapping=dg.SpecificPartitionsPartitionMapping(["99"]), metadata=metadata
    )

    @dg.asset(ins={"files": never})
    def report(files: object) -> None: ...

    job = dg.Definitions.merge(table.defs, dg.Definitions([report])).resolve_implicit_global_asset_job_def()
    result = job.execute_in_process(
        instance=table.instance, asset_selection=[dg.AssetKey("report")], raise_on_error=False
    )
    reason = failure_reason(table.instance, result.run_id)
    assert "Version 99 does not exist: the newest version in the log of events is 5." in reason
    assert "has not ended" not in reason


def test_table_itself_cannot_be_an_input(table: Refreshed) -> None:
    with pytest.raises(DeltaSnapError, match="events/delta_log cannot be loaded as an input: expected a dependency"):
        table.defs.load_asset_value(table_key(EVENTS), instance=table.instance)


@pytest.mark.parametrize("versions", [(0, 2), (3, 3)])
def test_run_of_old_versions_records_only_these_once(table: Refreshed, versions: tuple[int, int]) -> None:
    job, before = table.defs.resolve_job_def(job_name("events")), len(recorded(table.instance, "all_files"))
    job.execute_in_process(instance=table.instance, tags=run_tags("events", *versions))
    events = recorded(table.instance, "all_files")[before:]
    assert sorted(events) == [str(version) for version in range(versions[0], versions[1] + 1)]


@pytest.mark.parametrize(
    ("versions", "in_log", "left", "removed"),
    [
        ((0, 1, 2, 3, 4), range(3, 9), (0, 1, 3, 4), ["2"]),
        ((1, 4), range(3, 9), (1, 4), []),
        ((2,), range(3, 9), (2,), []),
        ((1, 2), range(0), (1, 2), []),
    ],
    ids=["lost", "stored", "nothing left", "log without versions"],
)
def test_lost_versions_that_are_neither_done_nor_stored_are_removed_if_others_are_left(
    versions: tuple[int, ...], in_log: range, left: tuple[int, ...], removed: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    partitions, warnings = list[tuple[str, str]](), list[str]()
    instance = SimpleNamespace(delete_dynamic_partition=lambda name, key: partitions.append((name, key)))
    context: Any = SimpleNamespace(instance=instance, log=SimpleNamespace(warning=warnings.append))
    listing = SimpleNamespace(reconstructable_versions=lambda: in_log)
    snapshots: Any = SimpleNamespace(listing=lambda _: listing, stored_versions=lambda _: [1])
    monkeypatch.setattr(cleaned_up_versions, "known_of", lambda *_: SimpleNamespace(done=frozenset({0})))
    assert without_cleaned_up(context, snapshots, TableSettings(name="t", path="/t"), versions) == left
    assert partitions == [("t_versions", key) for key in removed]
    assert warnings == [lost_text("t", {int(key)}) for key in removed]
