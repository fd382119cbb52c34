from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from deltasnap_assets.checks.check_settings import CheckSettings
from deltasnap_assets.settings.loading import demo_settings
from deltasnap_assets.tables.due_checkpoint import is_due, write_due_checkpoint
from deltasnap_core import DeltaLog, DeltaTableNotFoundError, FileStatus, TableLog
from deltasnap_core.support import LogListing
from tests.assets.followed_table import health
from tests.assets.runs.refresh_builders import STATS, Refreshed
from tests.builders import add, metadata, protocol, write_log
from tests.checkpoint_files import write_checkpoint
from tests.driver_bases import use_driver_bases


def listing(table: Path, commits: int, checkpoint: int | None = None) -> LogListing:
    log = write_log(table, {version: [protocol(), metadata()] for version in range(commits)})
    if checkpoint is not None:
        write_checkpoint(log, checkpoint, "classic", [protocol(), metadata()])
    return TableLog.for_path(table).list()


@pytest.mark.parametrize(("after_commits", "due"), [(4, True), (5, True), (6, False)])
def test_checkpoint_is_due_after_commits_from_the_start(after_commits: int, due: bool, tmp_path: Path) -> None:
    assert is_due(listing(tmp_path, 5), 4, after_commits) is due


@pytest.mark.parametrize(("after_commits", "due"), [(2, True), (3, False)])
def test_checkpoint_is_due_after_commits_since_the_newest(after_commits: int, due: bool, tmp_path: Path) -> None:
    assert is_due(listing(tmp_path, 5, checkpoint=2), 4, after_commits) is due


def test_checkpoint_of_an_earlier_version_is_not_due(tmp_path: Path) -> None:
    assert not is_due(listing(tmp_path, 5), 3, 1)


@pytest.mark.spark
def test_run_writes_a_checkpoint_when_it_is_due(tmp_path: Path) -> None:
    from tests.assets.tables.assets_builders import App

    app = App(tmp_path, checkpoint={"after_commits": 3})
    log = write_log(Path(app.path), {0: [protocol(), metadata()], 1: [add("a")]})
    assert app.refresh() == (0, 1)
    assert list(log.glob("*.checkpoint.parquet")) == []
    write_log(Path(app.path), {2: [add("b")], 3: [add("c")]})
    assert app.refresh() == (2, 3)
    assert [file.name for file in log.glob("*.checkpoint.parquet")] == ["00000000000000000003.checkpoint.parquet"]
    write_log(Path(app.path), {4: [protocol(1, 7, writerFeatures=["strange"])], 5: [], 6: []})
    assert app.refresh() == (4, 5, 6)  # a checkpoint that is refused fails no run
    assert len(list(log.glob("*.checkpoint.parquet"))) == 1


def test_run_that_writes_a_checkpoint_does_not_say_it_lags(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    use_driver_bases(monkeypatch)
    checks = CheckSettings(max_commits_since_checkpoint=3, fresh_within_hours=1_000_000)
    table = Refreshed(tmp_path, checkpoint={"after_commits": 3}, checks=checks)

    def checkpoint(_: object, version: int) -> object:
        actions = [protocol(), metadata(), *(add(f"a{each}.parquet", stats=STATS) for each in range(version + 1))]
        files = write_checkpoint(table.log, version, "classic", actions)
        return SimpleNamespace(version=version, files=files, is_new=True, size_in_bytes=1)

    monkeypatch.setattr(DeltaLog, "checkpoint", checkpoint)
    table.write(0, 4)
    assert table.refresh() == (0, 1, 2, 3, 4)
    assert table.verdict("checkpoint_lag") == (True, "WARN")
    assert table.row["condition"] == "healthy"
    assert health(table.instance).startswith("OK")


@pytest.mark.spark
def test_job_writes_a_checkpoint_of_the_latest_version_once(tmp_path: Path) -> None:
    from deltalake import DeltaTable

    from tests.assets.tables.assets_builders import QUIET, App

    app = App(tmp_path)
    app.grow(4)
    job, said = app.defs.resolve_job_def("deltasnap_checkpoint"), list[str]()
    for _ in range(2):
        result = job.execute_in_process(instance=app.instance, run_config=QUIET, partition_key="events")
        messages = [entry.user_message for entry in app.instance.all_logs(result.run_id)]
        said += [message for message in messages if "checkpoint: " in message or "the checkpoint " in message]
    name = "00000000000000000003.checkpoint.parquet"
    size = (app.path / "_delta_log" / name).stat().st_size
    assert said == [f"Wrote the checkpoint {name}: {size:,} bytes", f"Version 3 already has a checkpoint: {name}"]
    before = set(DeltaTable(app.path).file_uris())
    for version in range(4):
        (app.path / "_delta_log" / f"{version:020}.json").unlink()
    assert set(DeltaTable(app.path).file_uris()) == before != set()


class OneLog:
    """The part of RunSnapshots that writes a checkpoint. outcome: what writing returns or raises."""

    def __init__(self, table: Path, outcome: object) -> None:
        self.listed, self.outcome, self.written = listing(table, 3), outcome, list[int]()

    def listing(self, _: object) -> LogListing:
        return self.listed

    def list_again(self, _: object) -> None: ...

    def log(self, _: object) -> OneLog:
        return self

    def checkpoint(self, version: int) -> object:
        self.written.append(version)
        if isinstance(self.outcome, Exception):
            raise self.outcome
        return self.outcome


def written(folder: Path, after_commits: int | None, outcome: object = None) -> tuple[object, list[int]]:
    table = demo_settings(folder).tables[0]
    policy = table.checkpoint.model_copy(update={"after_commits": after_commits})
    one: Any = OneLog(folder, outcome)
    return write_due_checkpoint(one, table.model_copy(update={"checkpoint": policy}), 2), one.written


@pytest.mark.parametrize("after_commits", [None, 4])
def test_no_checkpoint_is_written_if_none_is_due(after_commits: int | None, tmp_path: Path) -> None:
    assert written(tmp_path, after_commits) == (None, [])


@pytest.mark.parametrize(
    ("is_new", "text"), [(True, "Wrote the checkpoint 2.parquet: 1,234 bytes"), (False, "Version 2 already has a")]
)
def test_checkpoint_that_is_due_is_written_and_named(is_new: bool, text: str, tmp_path: Path) -> None:
    file = FileStatus(path="/t/2.parquet", size=1234, modification_time=0)
    outcome, versions = written(
        tmp_path, 3, SimpleNamespace(version=2, files=[file], is_new=is_new, size_in_bytes=1234)
    )
    assert isinstance(outcome, tuple)
    assert outcome[0].startswith(text)
    assert (outcome[1], versions) == (True, [2])


def test_checkpoint_that_cannot_be_written_is_reported_without_failing(tmp_path: Path) -> None:
    outcome, versions = written(tmp_path, 3, DeltaTableNotFoundError(path="/nowhere"))
    assert isinstance(outcome, tuple)
    assert outcome[0].startswith("No checkpoint was written: No Delta table found at /nowhere")
    assert (outcome[1], versions) == (False, [2])


def test_commits_are_counted_from_the_newest_of_several_checkpoints(tmp_path: Path) -> None:
    listed = listing(tmp_path, 6, checkpoint=1)
    write_checkpoint(tmp_path / "_delta_log", 4, "classic", [protocol(), metadata()])
    assert is_due(listed, 5, 4)
    assert not is_due(TableLog.for_path(tmp_path).list(), 5, 2)
