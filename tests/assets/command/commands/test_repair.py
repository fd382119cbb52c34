"""`deltasnap repair`: what it prints, and which table of the store it uses."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from deltasnap_assets.command.views.repair_view import lines_of, stored_name
from deltasnap_core import SnapshotStore, TableLog, VersionRanges, WrittenCheckpoint
from deltasnap_core.protocol.log_files.file_names import LAST_CHECKPOINT, checkpoint_file, commit_file
from deltasnap_core.storage.log_store import FileStatus
from deltasnap_core.support import Repair
from tests.assets.command.commands.driver_commands_builders import run
from tests.builders import add, commit_info, metadata, protocol, write_log
from tests.driver_bases import use_driver_bases
from tests.without_spark import log_without_spark

TOP = FileStatus(path=f"file:///t/_delta_log/{checkpoint_file(2)}", size=1_500, modification_time=0)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder with a stored table that lost a commit."""
    use_driver_bases(monkeypatch)
    commits = {version: [commit_info(version=version), add(f"f{version}")] for version in range(4)}
    log = write_log(tmp_path / "t", {**commits, 0: [*commits[0], protocol(), metadata()]})
    store = SnapshotStore.open(None, tmp_path / "store")
    store.write_range("events", log_without_spark(TableLog.for_path(tmp_path / "t")), 0, 3)
    (log / commit_file(1)).unlink()
    text = "storage: store\ntables:\n  - {name: events, path: t}\n"
    (tmp_path / "deltasnap.yaml").write_text(text, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("arguments", [["events"], ["./t"], ["./t", "--stored-as", "events"], ["events", "--dry-run"]])
def test_by_default_nothing_is_written(arguments: list[str], folder: Path) -> None:
    before = sorted(file.name for file in (folder / "t").rglob("*"))
    result = run("repair", *arguments)
    assert result.exit_code == 0, result.output
    assert result.stdout.splitlines() == [
        "Would write the checkpoint of version 2. Every reader can then load version 2 and later.",
        "Would replace _last_checkpoint.",
        "Version 1 stays unreadable in the log. Stored versions stay readable in the store.",
        "Nothing was written. Add --write to write it.",
    ]
    assert "The commit of version 1 is missing" in result.stderr
    assert sorted(file.name for file in (folder / "t").rglob("*")) == before


def test_table_is_configured_by_its_name_in_a_catalog_too(folder: Path) -> None:
    catalogs = "catalogs: {main: {type: unity, host: localhost}}"
    text = f"{catalogs}\ntables: [{{name: events, table: main.silver.events}}, {{name: clicks, path: t}}]\n"
    (folder / "deltasnap.yaml").write_text(text, encoding="utf-8")
    names = [stored_name(each, "s3://lake/e", None) for each in ("main.silver.events", "events")]
    assert (names, stored_name("./t", "t", None)) == (["events"] * 2, "clicks")


def test_plan_as_json(folder: Path) -> None:
    found = json.loads(run("repair", "events", "--format", "json").stdout)
    known = {name: found[name] for name in ("schema_version", "version", "is_written", "unreadable_versions")}
    assert known == {"schema_version": 1, "version": 2, "is_written": False, "unreadable_versions": [[1, 1]]}
    assert [problem["kind"] for problem in found["problems"]] == ["missing_commit"]


def test_refusal_exits_with_1(folder: Path) -> None:
    (folder / "t" / "_delta_log" / commit_file(3)).write_text("{", encoding="utf-8")
    result = run("repair", "events", "--json")
    assert result.exit_code == 1
    assert "cannot be repaired: its newest commit, of version 3" in str(result.exception)


def test_path_without_configured_table_needs_a_name(folder: Path) -> None:
    (folder / "t").rename(folder / "moved")
    result = run("repair", "./moved")
    assert result.exit_code == 2
    assert "--stored-as NAME" in result.stderr
    assert run("repair", "./moved", "--stored-as", "events").exit_code == 0


def test_written_repair_names_what_was_moved() -> None:
    written = WrittenCheckpoint(version=2, is_new=True, kind="classic", files=(TOP,), num_of_actions=3)
    repair = Repair(
        table="t",
        version=2,
        renamed={"x.parquet": ".damaged-1-x.parquet"},
        unreadable=VersionRanges.of([0, 1]),
        has_hint=True,
        checkpoint=written,
        is_written=True,
    )
    assert lines_of(repair) == [
        f"Wrote {checkpoint_file(2)}: 3 actions, 0 files, 1,500 bytes. Every reader can now load version 2 and later.",
        "Replaced _last_checkpoint.",
        "Renamed the damaged x.parquet to .damaged-1-x.parquet.",
        "Versions 0 to 1 stay unreadable in the log. Stored versions stay readable in the store.",
    ]
    assert lines_of(Repair(table="t")) == ["Nothing to repair: every reader can load the latest version."]


@pytest.mark.spark
def test_repair_is_written(session: Any, folder: Path) -> None:
    result = run("repair", "events", "--write")
    assert result.exit_code == 0, result.output
    assert result.stdout.startswith(f"Wrote {checkpoint_file(2)}: ")
    assert json.loads((folder / "t" / "_delta_log" / LAST_CHECKPOINT).read_text())["version"] == 2
    assert run("repair", "events").stdout.startswith("Nothing to repair")
