"""The jobs that prune the store of a table, and write a checkpoint into its log."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import dagster as dg
import pytest
from pydantic import ValidationError

from deltasnap_assets.runs.planning.partitions import key_of, version_partitions
from deltasnap_assets.settings.config import Settings
from deltasnap_assets.settings.table_settings import TABLE_TAG, TableSettings
from deltasnap_assets.tables.checks.maintenance import CheckpointConfig, PruneConfig, checkpoint_job, prune_job
from deltasnap_core.errors import StorageError
from deltasnap_core.support import system_clock

TABLES = Settings(
    storage="/s", tables=tuple(TableSettings(name=name, path=f"/{name}") for name in ("clicks", "events"))
)


class Pruned:
    """A store of version 4 on, that removes versions 1 and 2. It records the arguments."""

    def __init__(self, pruned_before: int = 0) -> None:
        self.store = self
        self.pruned_before = pruned_before
        self.asked: list[tuple[str, dict[str, Any]]] = []
        self.fleets_before: list[int] = []

    def table(self, name: str) -> TableSettings:
        return TableSettings(name=name, path="/t")

    def prune(self, table: str, **arguments: Any) -> Any:
        self.asked.append((table, arguments))
        return SimpleNamespace(
            versions=(1, 2), generations=("000001",), num_files=3, size_in_bytes=4096, pruned_before=self.pruned_before
        )

    def versions(self, _: str) -> list[int]:
        return [4, 5, 6]

    def prune_fleet_history(self, before_ms: int) -> int:
        self.fleets_before.append(before_ms)
        return 2


def job_of(make: Any, snapshots: object) -> Any:
    """Return a job with the resource of its step."""
    job = make(TABLES)
    resource: Any = dg.ResourceDefinition.hardcoded_resource(snapshots)
    return dg.Definitions(jobs=[job], resources={"snapshots": resource}).resolve_job_def(job.name)


def pruned(instance: dg.DagsterInstance, config: dict[str, Any], pruned_before: int = 0) -> tuple[list[Any], list[str]]:
    snapshots = Pruned(pruned_before)
    job = job_of(prune_job, snapshots)
    (op,) = job.nodes
    run_config = {"ops": {op.name: {"config": config}}}
    result = job.execute_in_process(run_config=run_config, instance=instance, partition_key="events")
    assert result.success
    days = (system_clock() - snapshots.fleets_before[0]) / 86_400_000
    assert config.get("keep_fleet_days", 400) <= days < config.get("keep_fleet_days", 400) + 0.1
    entries = [entry.user_message for entry in instance.all_logs(result.run_id)]
    return snapshots.asked, [entry for entry in entries if entry.startswith("Removed")]


def test_job_prunes_the_store_and_removes_the_partitions_of_the_versions() -> None:
    name = version_partitions("events").name or ""
    with dg.DagsterInstance.ephemeral() as instance:
        instance.add_dynamic_partitions(name, [key_of(version) for version in range(4)])
        asked, messages = pruned(
            instance, {"keep": 5, "keep_generations": 2, "min_age_hours": 1.5, "keep_fleet_days": 3}
        )
        assert asked == [("events", {"keep": 5, "keep_generations": 2, "min_age_ms": 5_400_000})]
        assert instance.get_dynamic_partitions(name) == [key_of(0), key_of(3)]
        assert messages == ["Removed 2 versions, 1 replaced table, 3 files (4 KiB), and 2 old fleets."]


@pytest.mark.parametrize(("pruned_before", "left"), [(0, [0, 3, 4, 7]), (3, [3, 4, 7]), (6, [4, 7])])
def test_job_removes_the_partitions_that_an_interrupted_prune_left(pruned_before: int, left: list[int]) -> None:
    name = version_partitions("events").name or ""
    with dg.DagsterInstance.ephemeral() as instance:
        instance.add_dynamic_partitions(name, ["x", *(key_of(version) for version in (0, 1, 2, 3, 4, 7))])
        pruned(instance, {"keep": 3}, pruned_before)
        assert instance.get_dynamic_partitions(name) == ["x", *map(key_of, left)]


def test_job_keeps_the_latest_table_and_files_of_a_day_by_default() -> None:
    with dg.DagsterInstance.ephemeral() as instance:
        ((_, arguments),), _ = pruned(instance, {"keep": 5})
        assert arguments == {"keep": 5, "keep_generations": 1, "min_age_ms": 24 * 3_600_000}


@pytest.mark.parametrize(
    ("key", "least", "below"),
    [("keep", 1, 0), ("keep_generations", 1, 0), ("min_age_hours", 0, -0.1), ("keep_fleet_days", 1, 0.9)],
)
def test_number_to_keep_has_a_minimum(key: str, least: Any, below: Any) -> None:
    assert getattr(PruneConfig(**{key: least}), key) == least
    with pytest.raises(ValidationError, match=key):
        PruneConfig(**{key: below})
    assert CheckpointConfig(version=0).version == 0
    with pytest.raises(ValidationError, match="version"):
        CheckpointConfig(version=-1)


PATH = "s3://KEY:hunter2@b/events"


class RefusedCheckpoint:
    """The log of a table, whose storage refuses to write, and repeats the credentials of the table."""

    def table(self, name: str) -> TableSettings:
        return TableSettings(name=name, path=PATH)

    def log(self, _: TableSettings) -> RefusedCheckpoint:
        return self

    def checkpoint(self, _: int | None) -> Any:
        raise StorageError(path=PATH, reason="refused")


def test_checkpoint_that_cannot_be_written_fails_its_job_without_credentials() -> None:
    job = job_of(checkpoint_job, RefusedCheckpoint())
    with dg.DagsterInstance.ephemeral() as instance:
        result = job.execute_in_process(instance=instance, raise_on_error=False, partition_key="events")
        assert not result.success
        (failure,) = result.get_step_failure_events()
        assert failure.step_failure_data.error is not None
        text = failure.step_failure_data.error.to_string()
    assert "The storage failed at s3://*********(redacted)@b/events: refused" in text
    assert "hunter2" not in text


@pytest.mark.parametrize("make", [prune_job, checkpoint_job])
def test_run_of_a_partition_has_the_tag_of_its_table(make: Any) -> None:
    job = make(TABLES)
    assert list(job.partitions_def.get_partition_keys()) == ["clicks", "events"]
    assert job.get_tags_for_partition_key("events", None)[TABLE_TAG] == "events"


@pytest.mark.parametrize("make", [prune_job, checkpoint_job])
def test_run_without_a_table_asks_for_one(make: Any) -> None:
    job = job_of(make, RefusedCheckpoint())
    with dg.DagsterInstance.ephemeral() as instance:
        result = job.execute_in_process(instance=instance, raise_on_error=False)
        (failure,) = result.get_step_failure_events()
    assert f"choose a partition of {job.name}, or set the tag {TABLE_TAG}" in failure.event_specific_data.error.message
