"""Steps that Dagster retries: after a transient failure of the storage, and after nothing else."""

# No `from __future__ import annotations` here: Dagster reads the annotation of `context` and rejects a string.
# ruff: noqa: I002

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dagster as dg
import fsspec
import pytest
from fsspec.implementations.local import LocalFileSystem

from deltasnap_assets.definitions import build_definitions
from deltasnap_assets.runs.failure_reason import failure_reason
from deltasnap_assets.runs.refresh import RefreshError, refresh_table
from deltasnap_assets.settings.table_settings import TableSettings
from deltasnap_assets.tables.assets import steps
from deltasnap_assets.tables.assets.io_manager import IO_MANAGER_KEY
from deltasnap_assets.tables.assets.steps import SNAPSHOTS_KEY, STORAGE_RETRIES, asset_step
from deltasnap_core import CorruptLogError, DeltaSnapError
from deltasnap_core.errors import StorageError
from deltasnap_core.protocol.log_files.file_names import checksum_file
from deltasnap_core.storage import retries
from tests.assets.followed_table import FollowedTable
from tests.driver_bases import use_driver_bases

SECRET = "hunter2"  # not in the line that raises, which a stack trace shows
AT_ONCE = dg.RetryPolicy(max_retries=3, delay=0)


def run_of(error: Exception, times: int, instance: dg.DagsterInstance) -> tuple[dg.ExecuteInProcessResult, int]:
    """Run a step that raises an error some times. Return the result, and how often the step started."""
    started = []

    def compute(context: dg.AssetExecutionContext) -> Iterator[dg.Output[None]]:
        started.append(context.retry_number)
        if len(started) <= times:
            raise error
        yield dg.Output(None)

    asset = asset_step(TableSettings(name="events", path="/t"), dg.AssetSpec("events"), compute)
    resources = {SNAPSHOTS_KEY: dg.ResourceDefinition.none_resource(), IO_MANAGER_KEY: dg.mem_io_manager}
    result = dg.materialize([asset], instance=instance, resources=resources, raise_on_error=False)
    assert started == [*range(len(started))]
    return result, len(started)


@pytest.fixture
def instance(monkeypatch: pytest.MonkeyPatch) -> Iterator[dg.DagsterInstance]:
    monkeypatch.setattr(steps, "STORAGE_RETRIES", AT_ONCE)
    with dg.DagsterInstance.ephemeral() as made:
        yield made


def timeout(path: str = "s3://lake/t") -> StorageError:
    return StorageError(path=path, reason="slow down", is_transient=True)


@pytest.mark.parametrize(("times", "starts", "succeeds"), [(1, 2, True), (3, 4, True), (4, 4, False)])
def test_step_is_retried_three_times_after_a_transient_failure_of_the_storage(
    times: int, starts: int, succeeds: bool, instance: dg.DagsterInstance
) -> None:
    result, started = run_of(timeout(), times, instance)
    assert (result.success, started) == (succeeds, starts)
    if not succeeds:
        assert failure_reason(instance, result.run_id) == str(timeout())


@pytest.mark.parametrize(
    "error",
    [
        StorageError(path="s3://lake/t", reason="access denied"),
        CorruptLogError(path="s3://lake/t/_delta_log/0.json", reason="no object"),
        ValueError("a bug"),
        TimeoutError("of another library"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_step_is_not_retried_after_another_error(error: Exception, instance: dg.DagsterInstance) -> None:
    result, started = run_of(error, 1, instance)
    assert (result.success, started) == (False, 1)
    assert str(error) in failure_reason(instance, result.run_id)


def test_request_for_a_retry_has_no_credentials(instance: dg.DagsterInstance) -> None:
    error = timeout()
    error.__cause__ = OSError(f"s3://me:{SECRET}@lake/events refuses")
    result, started = run_of(error, 1, instance)
    assert started == 2
    recorded = [str(event.dagster_event) for event in instance.all_logs(result.run_id)]
    assert any("lake/events refuses" in text for text in recorded)
    assert not any(SECRET in text for text in recorded)


def test_pauses_double_and_end_within_the_time_after_which_a_run_counts_as_silent() -> None:
    pauses = [STORAGE_RETRIES.calculate_delay(number + 1) for number in range(STORAGE_RETRIES.max_retries)]
    assert pauses == [5, 15, 35]


class Unsteady(LocalFileSystem):  # type: ignore[misc]
    """A remote storage that fails at times."""

    protocol = "unsteady"
    cachable = False
    problem: Exception | None = None

    def _open(self, *path: Any, **options: Any) -> Any:
        if Unsteady.problem is not None:
            raise Unsteady.problem
        return super()._open(*path, **options)


class Refreshed(FollowedTable):
    """A table of three versions on an unsteady storage. problem: fails the second step, until Dagster retries it."""

    problem: Exception | None = None

    def refresh(self) -> tuple[int, ...]:
        return refresh_table(
            build_definitions(self.settings),
            self.settings,
            self.table,
            self.instance,
            on_event=self._on_event,
            log_level="CRITICAL",
        )

    def _on_event(self, _: range, message: str) -> None:
        if 'Started execution of step "events__reconstructed_state"' in message:
            Unsteady.problem = self.problem
        if "requested a retry" in message:
            Unsteady.problem = None

    @property
    def retries(self) -> int:
        """How often Dagster retried a step."""
        kind = dg.DagsterEventType.STEP_UP_FOR_RETRY
        return sum(len(self.instance.all_logs(run.run_id, of_type=kind)) for run in self.instance.get_runs())


@pytest.fixture
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Refreshed:
    fsspec.register_implementation("unsteady", Unsteady, clobber=True)
    use_driver_bases(monkeypatch)
    monkeypatch.setattr(retries, "FIRST_PAUSE_SECONDS", 0)
    monkeypatch.setattr(steps, "STORAGE_RETRIES", AT_ONCE)
    monkeypatch.setattr(Unsteady, "problem", None)
    made = Refreshed(tmp_path / "events", url=f"unsteady://{tmp_path}/events")
    made.write(0, 2)
    return made


@pytest.mark.slow
def test_refresh_succeeds_although_its_storage_does_not_respond_for_a_moment(table: Refreshed) -> None:
    table.problem = TimeoutError("slow")
    assert table.refresh() == (0, 1, 2)
    assert table.retries == 1
    assert [run.status for run in table.instance.get_runs()] == [dg.DagsterRunStatus.SUCCESS]


@pytest.mark.slow
def test_refresh_is_not_retried_if_its_storage_denies_access(table: Refreshed) -> None:
    table.problem = PermissionError("denied")
    with pytest.raises(DeltaSnapError, match="denied"):
        table.refresh()
    assert table.retries == 0


@pytest.mark.slow
def test_refresh_is_not_retried_if_a_check_blocks_it(table: Refreshed) -> None:
    (table.log / checksum_file(2)).write_text(
        '{"tableSizeBytes": 1, "numFiles": 1, "numMetadata": 1, "numProtocol": 1}'
    )
    with pytest.raises(RefreshError, match="checksum_agrees"):
        table.refresh()
    assert table.retries == 0
