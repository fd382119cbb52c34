from __future__ import annotations

from pathlib import Path

import pytest

from deltasnap_assets.tables.due_checkpoint import is_due
from deltasnap_core import LogListing, TableLog
from tests.builders import add, metadata, protocol, write_log
from tests.checkpoint_files import write_checkpoint


def listing(table: Path, commits: int, checkpoint: int | None = None) -> LogListing:
    log = write_log(table, {version: [protocol(), metadata()] for version in range(commits)})
    if checkpoint is not None:
        write_checkpoint(log, checkpoint, "classic", [protocol(), metadata()])
    return TableLog.for_path(table).list()


@pytest.mark.parametrize(("after_commits", "due"), [(None, False), (4, True), (5, True), (6, False)])
def test_checkpoint_is_due_after_commits_from_the_start(after_commits: int | None, due: bool, tmp_path: Path) -> None:
    assert is_due(listing(tmp_path, 5), 4, after_commits) is due


@pytest.mark.parametrize(("after_commits", "due"), [(2, True), (3, False)])
def test_checkpoint_is_due_after_commits_since_the_newest(after_commits: int, due: bool, tmp_path: Path) -> None:
    assert is_due(listing(tmp_path, 5, checkpoint=2), 4, after_commits) is due


def test_checkpoint_of_an_earlier_version_is_not_due(tmp_path: Path) -> None:
    assert not is_due(listing(tmp_path, 5), 3, 1)


@pytest.mark.spark
def test_run_writes_a_checkpoint_when_it_is_due(tmp_path: Path) -> None:
    from tests.assets.tables.test_assets import App

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
