"""How commands end: exit codes, Ctrl-C, closed pipes, unusable folders."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from deltasnap_assets.command import cli
from tests.assets.command.test_cli import (
    COMMAND,
    FORKS,
    ROOT,
    WITHOUT_SPARK,
    assert_one_line_of_error,
    deltasnap,
    small_table,
)

WITHOUT_A_READER = "import os; reader, writer = os.pipe(); os.dup2(writer, 1); os.close(reader)"


def test_interrupted_command_exits_with_130(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted() -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("deltasnap_assets.command.doctor.examine", interrupted)
    monkeypatch.setattr("sys.argv", ["deltasnap", "doctor"])
    with pytest.raises(SystemExit) as end:
        cli.run()
    assert (end.value.code, capsys.readouterr().err) == (130, "error: interrupted\n")


def test_unexpected_error_is_one_line_or_with_debug_a_traceback(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail() -> None:
        raise RuntimeError("not\n expected")

    monkeypatch.setattr("deltasnap_assets.command.doctor.examine", fail)
    monkeypatch.setattr("sys.argv", ["deltasnap", "doctor"])
    with pytest.raises(SystemExit) as end:
        cli.run()
    expected = "error: RuntimeError: not expected (set DELTASNAP_DEBUG=1 for a traceback)\n"
    assert (end.value.code, capsys.readouterr().err) == (1, expected)
    monkeypatch.setenv("DELTASNAP_DEBUG", "1")
    with pytest.raises(RuntimeError, match="not"):
        cli.run()


def test_closed_pipe_is_not_a_failure(tmp_path: Path) -> None:
    small_table(tmp_path / "t")
    for arguments in ("history t --json", "history t", "diff t 0 1 --json", "--help"):
        assert code_without_a_reader(tmp_path, *arguments.split()) == 0, arguments


def test_closed_stdout_is_not_a_failure(tmp_path: Path) -> None:
    small_table(tmp_path / "t")
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    for arguments in ("history t", "inspect t --json", "diff t 0 1"):
        closed = f"import os, sys; os.close(1); sys.stdout = None; {WITHOUT_SPARK}"
        ended = FORKS.run(closed, *arguments.split(), cwd=tmp_path, env=environment)
        assert (ended.returncode, ended.stderr) == (0, ""), arguments


def test_refresh_continues_without_a_reader(tmp_path: Path) -> None:
    small_table(tmp_path / "t")
    (tmp_path / "deltasnap.yaml").write_text("tables: [{name: gone, path: gone}, {name: t, path: t}]\nstorage: store")
    assert code_without_a_reader(tmp_path, "refresh") == 1  # the failure of the first table
    assert (tmp_path / "store" / "t" / "manifests").is_dir()


def code_without_a_reader(folder: Path, *arguments: str) -> int:
    """Return the exit code of a command whose stdout nobody reads."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "DAGSTER_HOME": ""}
    return FORKS.run(f"{WITHOUT_A_READER}; {WITHOUT_SPARK}", *arguments, cwd=folder, env=environment).returncode


def test_folder_that_cannot_be_written_is_one_line(tmp_path: Path) -> None:
    small_table(tmp_path / "t")
    (tmp_path / "deltasnap.yaml").write_text("tables: [{name: t, path: t}]\nstorage: store")
    (tmp_path / ".deltasnap").write_text("a file where the instance should be")
    result = deltasnap("refresh", folder=tmp_path, DAGSTER_HOME="")
    assert_one_line_of_error(result, "The Dagster instance", "cannot be created: ", "set DAGSTER_HOME.")


def test_deleted_working_directory_is_one_line(tmp_path: Path) -> None:
    script = f"import os; os.rmdir({str(tmp_path / 'gone')!r}); {COMMAND}"
    (tmp_path / "gone").mkdir()
    result = FORKS.run(script, "fleet", cwd=tmp_path / "gone")
    assert_one_line_of_error(result, "The current folder was deleted. Change to another folder.")
