from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from deltasnap_assets.command import cli
from deltasnap_assets.command.cli import app
from tests.builders import add, metadata, protocol, write_log


def run(*arguments: object) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def failure(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, Any]:
    monkeypatch.setattr("sys.argv", ["deltasnap", *map(str, arguments), "--json"])
    with pytest.raises(SystemExit) as ended:
        cli.run()
    return int(str(ended.value.code)), json.loads(capsys.readouterr().out)


@pytest.mark.spark
def test_command_writes_a_checkpoint_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    log = write_log(tmp_path / "t", {0: [protocol(), metadata()], 1: [add("a", size=5)]})
    written = json.loads(run("checkpoint", tmp_path / "t", "--json").stdout)
    name = "00000000000000000001.checkpoint.parquet"
    assert written == {
        "version": 1,
        "isNew": True,
        "kind": "classic",
        "files": [name],
        "sizeInBytes": (log / name).stat().st_size,
        "numOfActions": 3,
        "numOfAddFiles": 1,
        "isHintWritten": True,
    }
    again = run("checkpoint", tmp_path / "t")
    assert (again.exit_code, again.stdout) == (
        0,
        f"Version 1 already has a checkpoint: {name}. Nothing was written.\n",
    )
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


def test_command_reports_a_missing_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    code, reported = failure(monkeypatch, capsys, "checkpoint", tmp_path / "none")
    assert code == 1
    assert "No Delta table at" in reported["error"]
