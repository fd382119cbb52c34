from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from deltasnap_assets.command import cli, table_on_spark
from deltasnap_assets.command.cli import app
from deltasnap_core import FileStatus, WrittenCheckpoint
from tests.builders import add, metadata, protocol, write_log
from tests.checkpoint_files import write_checkpoint


def run(*arguments: object) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def failure(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, Any]:
    monkeypatch.setattr("sys.argv", ["deltasnap", *map(str, arguments), "--json"])
    with pytest.raises(SystemExit) as ended:
        cli.run()
    return int(str(ended.value.code)), json.loads(capsys.readouterr().out)


NEW = {"is_new": True, "num_of_actions": 1_003, "num_of_add_files": 1_000, "is_hint_written": True}
SIDECAR = FileStatus(path="file:///t/_delta_log/_sidecars/a.parquet", size=1_000, modification_time=0)
WROTE = "Wrote 0.checkpoint.parquet: 1,003 actions, 1,000 files, 500 bytes."
KEPT = "_last_checkpoint was not changed: the log has a newer checkpoint, or the storage rejected the file."
WRITTEN: dict[str, tuple[dict[str, Any], tuple[FileStatus, ...], list[str]]] = {
    "new": (NEW, (), [WROTE]),
    "not the newest": ({**NEW, "is_hint_written": False}, (), [WROTE, KEPT]),
    "one sidecar": (NEW, (SIDECAR,), [WROTE.replace(":", " and 1 sidecar:").replace("500", "1,500")]),
    "two sidecars": (NEW, (SIDECAR,) * 2, [WROTE.replace(":", " and 2 sidecars:").replace("500", "2,500")]),
    "existing": (
        {"is_new": False},
        (),
        ["Version 4 already has a checkpoint: 0.checkpoint.parquet. Nothing was written."],
    ),
}


@pytest.mark.parametrize("case", WRITTEN)
def test_command_reports_what_it_wrote(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    fields, sidecars, lines = WRITTEN[case]
    top = FileStatus(path="file:///t/_delta_log/0.checkpoint.parquet", size=500, modification_time=0)
    written = WrittenCheckpoint(version=4, kind="classic", files=(top, *sidecars), **fields)
    logs = {None: written, 4: written}
    monkeypatch.setattr(table_on_spark, "delta_log_of", lambda *_: SimpleNamespace(checkpoint=logs.__getitem__))
    for options in ((), ("--version", 4)):
        shown = run("checkpoint", "t", *options)
        assert (shown.exit_code, shown.stdout.splitlines()) == (0, lines)
    assert json.loads(run("checkpoint", "t", "--json").stdout) == {"schema_version": 1, **written.to_json()}


@pytest.mark.spark
def test_command_writes_a_checkpoint_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    log = write_log(tmp_path / "t", {0: [protocol(), metadata()], 1: [add("a", size=5)]})
    written = json.loads(run("checkpoint", tmp_path / "t", "--json").stdout)
    name = "00000000000000000001.checkpoint.parquet"
    assert written == {
        "schema_version": 1,
        "version": 1,
        "is_new": True,
        "kind": "classic",
        "files": [name],
        "size_in_bytes": (log / name).stat().st_size,
        "num_of_actions": 3,
        "num_of_add_files": 1,
        "is_hint_written": True,
    }
    again = run("checkpoint", tmp_path / "t")
    assert (again.exit_code, again.stdout) == (0, f"Version 1 already has a checkpoint: {name}. Nothing was written.\n")
    earlier = run("checkpoint", tmp_path / "t", "--version", 0)
    assert earlier.exit_code == 0
    assert earlier.stdout.startswith("Wrote 00000000000000000000.checkpoint.parquet: 2 actions, 0 files, ")
    assert "_last_checkpoint was not changed" in earlier.stdout


@pytest.mark.spark
def test_command_rejects_unknown_features_by_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    write_log(tmp_path / "t", {0: [protocol(1, 7, writerFeatures=["strange"]), metadata()]})
    code, reported = failure(monkeypatch, capsys, "checkpoint", tmp_path / "t")
    assert code == 1
    assert "the writer features strange" in reported["error"]


def test_missing_table_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    code, reported = failure(monkeypatch, capsys, "checkpoint", tmp_path / "none")
    assert code == 1
    assert "No Delta table at" in reported["error"]


def test_command_explains_why_version_0_cannot_be_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    log = write_log(tmp_path / "t", {0: [protocol(), metadata()], 1: [add("a")]})
    write_checkpoint(log, 1, "classic", [protocol(), metadata(), add("a")])
    (log / f"{0:020}.json").write_bytes(b"{nope\n")
    code, reported = failure(monkeypatch, capsys, "checkpoint", tmp_path / "t", "--version", 0)
    assert (code, "Loadable: version 1." in reported["error"]) == (1, True)
