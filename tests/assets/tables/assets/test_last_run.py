"""The version that the last run of an asset read, and the versions whose row changes the next one gets."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import dagster as dg
import pytest

from deltasnap_assets.runs.planning.partitions import version_partitions
from deltasnap_assets.runs.stores import store_of
from deltasnap_assets.settings.table_settings import TableSettings
from deltasnap_assets.tables.assets import last_run
from deltasnap_assets.tables.assets.last_run import ConsumingAsset, LastRunError, ReadVersion
from deltasnap_assets.tables.assets.row_change_inputs import StoredRowChanges, _since_last_run, row_changes_of
from deltasnap_assets.tables.run_snapshots import RunSnapshots
from deltasnap_core import ScanOptions, VersionManifest
from tests.assets.tables.checks.checks_alone_builders import LAST, Table, original, table
from tests.core.store.manifests import GENERATION, log_store, store_versions, stored_table, table_log


@pytest.fixture
def manifests(tmp_path: Path) -> dict[int, VersionManifest]:
    table = stored_table(tmp_path)
    store_versions(table, table_log(log_store(range(3))), range(3))
    return {each.version: each for each in table.read_manifests([*table.current_names().values()])}


def test_version_that_was_read_has_a_generation_and_a_commit(manifests: dict[int, VersionManifest]) -> None:
    read = ReadVersion.of(manifests[1])
    assert (read.version, read.generation) == (1, GENERATION)
    assert len(read.commit or "") >= 32
    assert ReadVersion.from_json(read.to_json()) == read
    assert ReadVersion.of(replace(manifests[1], identity=None)).commit is None


@pytest.mark.parametrize("values", [None, {}, {"version": "1", "generation": "g", "commit": None}, {"version": 1}, 7])
def test_other_metadata_is_no_version(values: Any) -> None:
    assert ReadVersion.from_json(values) is None


def test_version_is_before_the_latest_of_the_same_log(manifests: dict[int, VersionManifest]) -> None:
    read, latest = ReadVersion.of(manifests[1]), manifests[2]
    assert read.is_before(latest, manifests[1])
    assert read.is_before(manifests[1], manifests[1])
    assert read.is_before(latest, None)
    assert not read.is_before(manifests[0], None)
    assert not replace(read, generation="000002-other").is_before(latest, manifests[1])
    assert not replace(read, generation="000002-other").is_before(latest, None)
    assert not replace(read, commit="another").is_before(latest, manifests[1])
    assert replace(read, commit=None).is_before(latest, manifests[1])
    assert read.is_before(latest, replace(manifests[1], identity=None))


class Consumed:
    """An asset that reads the changes of the table `events` in a run, and what it found."""

    def __init__(self, **options: Any) -> None:
        self.instance, self.found = dg.DagsterInstance.ephemeral(), list[ReadVersion | None]()
        self.fails, self.next, self.result = False, 0, dg.MaterializeResult[int | None]()

        def mirror():  # type: ignore[no-untyped-def] # Dagster would expect a result without checks

            consumer = ConsumingAsset.of_step("events")
            self.found.append(last := consumer.last_read())
            read = ReadVersion(version=self.next, generation=GENERATION, commit=None)
            consumer.record(read, None if last is None else last.version)
            self.next += 1
            if self.fails:
                raise ValueError("not now")
            return self.result

        self.asset = dg.asset(name="mirror", **options)(mirror)

    def run(self, **options: Any) -> int | None:
        """Run the asset. Return the version that the run before it read."""
        dg.materialize([self.asset], instance=self.instance, raise_on_error=False, **options)
        last = self.found[-1]
        return None if last is None else last.version

    @property
    def recorded(self) -> Any:
        event: Any = self.instance.get_latest_materialization_event(self.asset.key)
        return event.asset_materialization.metadata["deltasnap/row_changes/events"].value


def test_next_run_gets_the_version_that_the_last_successful_run_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(last_run, "_PAGE", 1)
    consumed = Consumed()
    assert consumed.run() is None
    assert consumed.run() == 0
    consumed.fails = True
    assert consumed.run() == 1
    consumed.fails = False
    for _ in range(2):  # reported by a user, newer than the run
        consumed.instance.report_runless_asset_event(dg.AssetMaterialization("mirror"))
    assert consumed.run() == 1
    assert consumed.recorded == {"since": 1, "version": 3, "generation": GENERATION, "commit": None}


def test_retry_of_a_failed_step_gets_the_version_that_the_run_before_it_read() -> None:
    consumed = Consumed(retry_policy=dg.RetryPolicy(max_retries=1))
    consumed.run()
    consumed.fails = True
    consumed.run()
    assert [last and last.version for last in consumed.found] == [None, 0, 0]


def test_materialization_that_cannot_be_stored_does_not_count() -> None:
    class Broken(dg.IOManager):
        def handle_output(self, context: dg.OutputContext, obj: object) -> None:
            raise OSError("no space left")

        def load_input(self, context: dg.InputContext) -> None: ...

    consumed = Consumed()
    consumed.result = dg.MaterializeResult(value=1)
    consumed.run(resources={"io_manager": dg.IOManagerDefinition.hardcoded_io_manager(Broken())})
    assert consumed.run() is None


def test_run_whose_blocking_check_fails_counts_because_the_asset_was_materialized() -> None:
    consumed = Consumed(check_specs=[dg.AssetCheckSpec("good", asset="mirror", blocking=True)])
    consumed.result = dg.MaterializeResult(check_results=[dg.AssetCheckResult(passed=False)])
    assert [consumed.run(), consumed.run()] == [None, 0]


def test_each_partition_has_its_own_last_run() -> None:
    consumed = Consumed(partitions_def=dg.StaticPartitionsDefinition(["a", "b"]))
    assert [consumed.run(partition_key=key) for key in ("a", "b", "b", "a")] == [None, None, 1, 0]


def test_metadata_of_others_is_an_error_that_names_the_entry() -> None:
    consumed = Consumed()
    wrong = dg.AssetMaterialization("mirror", metadata={"deltasnap/row_changes/events": "7"})
    consumed.instance.report_runless_asset_event(wrong)
    result = dg.materialize([consumed.asset], instance=consumed.instance, raise_on_error=False)
    (failure,) = [event.step_failure_data.error for event in result.all_events if event.is_step_failure]
    assert "deltasnap did not write its metadata entry 'deltasnap/row_changes/events'" in str(failure)


def read_in(asset: dg.AssetsDefinition, **options: Any) -> None:
    dg.materialize([asset], instance=dg.DagsterInstance.ephemeral(), **options)


def test_asset_whose_partitions_are_versions_or_whose_input_has_several_is_an_error() -> None:
    def read() -> None:
        row_changes_of(cast("Any", None), "events", [1, 2], "since_last_run", {})

    with pytest.raises(LastRunError, match=r"every.*: .* found 2; use partition_mapping=LatestVersion\(\)"):
        read_in(dg.asset(name="every")(read))
    instance, partitions = dg.DagsterInstance.ephemeral(), version_partitions("events")
    instance.add_dynamic_partitions("events_versions", ["0"])
    mirror = dg.asset(name="mirror", partitions_def=partitions)(read)
    with pytest.raises(LastRunError, match=r"mirror.*each of its partitions is a version, so use 'row_changes': 'of"):
        dg.materialize([mirror], instance=instance, partition_key="0")


@pytest.mark.filterwarnings("ignore::dagster.BetaWarning")
def test_step_that_is_not_one_partition_of_one_asset_is_an_error() -> None:
    def read() -> None:
        ConsumingAsset.of_step("events")

    with pytest.raises(LastRunError, match="an asset: this input needs a run that materializes an asset") as raised:
        read()
    assert (raised.value.table, raised.value.consumer) == ("events", "an asset")

    @dg.multi_asset(outs={"two": dg.AssetOut(), "one": dg.AssetOut()})
    def several() -> tuple[int, int]:
        read()
        return 1, 2

    with pytest.raises(LastRunError, match="last run of one, two: expected a step that materializes one asset"):
        read_in(several)

    @dg.graph_asset
    def graph() -> Any:
        return dg.op(name="inner")(read)()

    with pytest.raises(LastRunError, match=r"last run of graph: expected a step .*, not a graph of ops"):
        read_in(graph)

    partitions, policy = dg.StaticPartitionsDefinition(["a", "b"]), dg.BackfillPolicy.single_run()
    whole = dg.asset(name="whole", partitions_def=partitions, backfill_policy=policy)(read)
    both = {"dagster/asset_partition_range_start": "a", "dagster/asset_partition_range_end": "b"}
    with pytest.raises(LastRunError, match="last run of whole: expected a run of one partition, found 2 partitions"):
        read_in(whole, tags=both)


__all__ = ["original", "table"]

UNUSED: Any = None


class Consumer:
    """An asset whose last run read a version; None: it never ran."""

    def __init__(self, table: Table, last: int | None) -> None:
        self.read = None if last is None else ReadVersion.of(store_of(table.settings).manifest("events", last))
        self.recorded: list[tuple[int, int | None]] = []

    def last_read(self) -> ReadVersion | None:
        return self.read

    def error(self, reason: str) -> LastRunError:
        return LastRunError(table="events", consumer="mirror", reason=reason)

    def record(self, read: ReadVersion, since: int | None) -> None:
        self.recorded.append((read.version, since))

    def changes(self, table: Table, version: int = LAST) -> StoredRowChanges:
        consumer: Any = self
        snapshots = RunSnapshots(table.settings, UNUSED)
        return _since_last_run(snapshots, consumer, "events", version, {})


def cut(table: Table, last: int) -> None:
    """Remove the later commits from the log."""
    for version in range(last + 1, LAST + 1):
        (table.path / "_delta_log" / f"{version:020d}.json").unlink()


def test_changes_begin_after_the_version_of_the_last_run(table: Table) -> None:
    for since in (None, 0, LAST - 1, LAST):
        consumer = Consumer(table, since)
        found = consumer.changes(table)
        assert (found.since, found.last, found.from_log) == (since, LAST, False)
        assert consumer.recorded == [(LAST, since)]


def test_log_is_read_if_the_store_lacks_a_version_between(table: Table) -> None:
    consumers = {since: Consumer(table, since) for since in (None, 0, 2, 3, 4)}
    store_of(table.settings).prune("events", keep=2)
    found = {since: consumer.changes(table).from_log for since, consumer in consumers.items()}
    assert found == {None: False, 0: True, 2: True, 3: False, 4: False}


def test_versions_lost_in_the_store_and_in_the_log_are_an_error(table: Table) -> None:
    consumer = Consumer(table, 1)
    store_of(table.settings).prune("events", keep=2)
    cut(table, LAST - 1)
    with pytest.raises(LastRunError, match="version 2 is not stored, and the log was rolled back"):
        consumer.changes(table)
    assert consumer.recorded == []
    assert consumer.changes(table, LAST - 1).from_log


def test_last_run_of_a_later_version_is_an_error(table: Table) -> None:
    consumer = Consumer(table, LAST)
    with pytest.raises(LastRunError, match=f"that run read version {LAST}, which the history of version"):
        consumer.changes(table, LAST - 1)


def test_changes_of_a_version_begin_at_the_one_before() -> None:
    found = row_changes_of(UNUSED, "events", [0, 1, 5], "of_version", {})
    assert {version: (each.since, each.last, each.from_log) for version, each in found.items()} == {
        0: (None, 0, False),
        1: (0, 1, False),
        5: (4, 5, False),
    }


def test_input_since_the_last_run_reads_up_to_another_partitioning(
    table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    consumer: Any = Consumer(table, 2)
    monkeypatch.setattr(ConsumingAsset, "of_step", lambda _: consumer)

    def found(versions: list[int], partitions: Any = None) -> dict[int, StoredRowChanges]:
        consumer.context = SimpleNamespace(assets_def=SimpleNamespace(partitions_def=partitions))
        return row_changes_of(RunSnapshots(table.settings, UNUSED), "events", versions, "since_last_run", {})

    assert found([]) == {}
    assert {version: (each.since, each.last) for version, each in found([4], version_partitions("other")).items()} == {
        4: (2, 4)
    }
    with pytest.raises(LastRunError, match="expected one version to read up to, found 2"):
        found([4, 5])
    with pytest.raises(LastRunError, match="each of its partitions is a version, so use 'row_changes': 'of_version'"):
        found([4], version_partitions("events"))


@pytest.mark.parametrize(
    ("since", "from_log", "expected"),
    [(2, False, ("store", "events", 2, 5)), (2, True, ("log", 3, 5)), (None, True, ("store", "events", None, 5))],
)
def test_changes_are_queried_in_the_store_or_the_log(since: int | None, from_log: bool, expected: Any) -> None:
    asked: list[Any] = []
    options: Any = {"key": ("id",), "net": True, "where": "x > 1", "columns": ("x",)}
    snapshots: Any = SimpleNamespace(
        table=lambda _: TableSettings(name="events", path="/lake/events", storage_options={"a": 1}),
        store=SimpleNamespace(row_changes_since=lambda *place, **wanted: asked.append((("store", *place), wanted))),
        log=lambda _: SimpleNamespace(row_changes=lambda *place, **wanted: asked.append((("log", *place), wanted))),
    )
    StoredRowChanges(
        snapshots=snapshots, table="events", since=since, last=5, options=options, from_log=from_log
    ).value()
    assert asked == [(expected, {**options, "options": ScanOptions(storage_options={"a": 1})})]
