"""How commands end: exit codes, Ctrl-C, closed pipes, unusable folders."""

from __future__ import annotations

import gc
import json
import logging
import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import Mock

import pytest
import typer

from deltasnap_assets.command import cli
from deltasnap_assets.command.views.condition_view import FaultyTableError
from deltasnap_core import ProblemKind
from tests.assets.checks.known import condition, fault
from tests.assets.command.cli_builders import (
    COMMAND,
    FORKS,
    ROOT,
    WITHOUT_SPARK,
    assert_one_line_of_error,
    deltasnap,
    in_a_new_process,
    small_table,
)

WITHOUT_A_READER = "import os; reader, writer = os.pipe(); os.dup2(writer, 1); os.close(reader)"


@pytest.fixture(autouse=True)
def _own_handlers(monkeypatch: pytest.MonkeyPatch) -> None:
    """A command adds handlers of warnings to the loggers of its process."""
    for name in ("deltasnap_assets", "deltasnap_core"):
        monkeypatch.setattr(logging.getLogger(name), "handlers", [])


def test_interrupted_command_exits_130(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def interrupted() -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("deltasnap_assets.command.doctor.examine", interrupted)
    monkeypatch.setattr("sys.argv", ["deltasnap", "doctor"])
    with pytest.raises(SystemExit) as end:
        cli.run()
    assert (end.value.code, capsys.readouterr().err) == (130, "error: interrupted\n")


def test_command_that_is_interrupted_while_it_loads_exits_with_130_and_no_traceback(tmp_path: Path) -> None:
    interrupt = "import os, signal, sys\nclass Finder:\n    def find_spec(self, name, *_):\n"
    interrupt += "        if name.endswith('.cli'): os.kill(os.getpid(), signal.SIGINT)\n"
    ended = in_a_new_process(f"{interrupt}sys.meta_path.insert(0, Finder())\n{COMMAND}", tmp_path)
    assert (ended.returncode, ended.stdout, ended.stderr) == (130, "", "")


def test_unexpected_error_is_one_line_or_with_debug_a_traceback(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("deltasnap_assets.command.doctor.examine", Mock(side_effect=RuntimeError("not\n expected")))
    monkeypatch.setattr("sys.argv", ["deltasnap", "doctor"])
    with pytest.raises(SystemExit) as end:
        cli.run()
    expected = "error: RuntimeError: not expected (set DELTASNAP_DEBUG=1 for a traceback)\n"
    assert (end.value.code, capsys.readouterr().err) == (1, expected)
    monkeypatch.setenv("DELTASNAP_DEBUG", "1")
    with pytest.raises(RuntimeError, match="not"):
        cli.run()


ENDINGS: dict[str, tuple[object, int, str]] = {
    "done": (None, 0, ""),
    "an exit code": (3, 3, ""),
    "Ctrl-C, as Typer reports it": (130, 130, "interrupted"),
    "wrong usage": (typer.BadParameter("Nope"), 2, "Invalid value: Nope"),
    "of a table": (
        FaultyTableError(condition(fault(ProblemKind.NO_TABLE))),
        1,
        "Problem no_table. Repair no_table. Loadable: versions 0 to 5.",
    ),
    "a long message": (
        RuntimeError("x" * 1001),
        1,
        f"RuntimeError: {'x' * 1000} (set DELTASNAP_DEBUG=1 for a traceback)",
    ),
    "a local file": (FileNotFoundError(2, "No such file", "a.yaml"), 1, "a.yaml: No such file."),
    "no permission": (
        PermissionError(13, "Permission denied", b"a.yaml"),
        1,
        "a.yaml: Permission denied. Correct its permissions, or change to another folder.",
    ),
    "an error of a socket": (OSError("no route"), 1, "OSError: no route (set DELTASNAP_DEBUG=1 for a traceback)"),
}


@pytest.mark.parametrize("case", ENDINGS)
@pytest.mark.parametrize("arguments", [["doctor"], ["doctor", "--json"]], ids=["text", "json"])
def test_failure_is_a_line_and_with_json_also_an_object(
    case: str, arguments: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    ending, code, message = ENDINGS[case]

    def app(**options: object) -> object:
        assert options == {"standalone_mode": False, "prog_name": "deltasnap"}
        if isinstance(ending, Exception):
            raise ending
        return ending

    monkeypatch.setattr(cli, "app", app)
    monkeypatch.setattr("sys.argv", ["deltasnap", *arguments])
    with pytest.raises(SystemExit) as end:
        cli.run()
    assert end.value.code in ((code, None) if code == 0 else (code,))
    shown = capsys.readouterr()
    assert shown.err == (f"error: {message}\n" if message else "")
    known = {"condition": ending.condition.to_json()} if isinstance(ending, FaultyTableError) else {}
    expected = {"schema_version": 1, "error": message, **known} if message and "--json" in arguments else None
    assert (json.loads(shown.out) if shown.out else None) == expected


@pytest.mark.parametrize(
    ("ending", "code"),
    [(SystemExit(None), 0), (SystemExit(4), 4), (SystemExit("text"), 1)],
    ids=["done", "a code", "a text"],
)
def test_process_ends_with_the_code_of_its_command_after_its_exit_functions(
    ending: SystemExit, code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[object] = []

    def run() -> None:
        done.append(gc.get_threshold()[0] > 10_000)
        raise ending

    before = gc.get_threshold()
    ended: Callable[[], None] = cli.main
    monkeypatch.setattr(cli, "run", run)
    monkeypatch.setattr("atexit._run_exitfuncs", lambda: done.append("exit functions"))
    monkeypatch.setattr(os, "_exit", done.append)
    for name in ("stdout", "stderr"):
        monkeypatch.setattr(f"sys.{name}", SimpleNamespace(flush=partial(done.append, name)))
    ended()
    gc.set_threshold(*before)
    assert done == [True, "exit functions", "stdout", "stderr", code]


@pytest.mark.parametrize(("code", "expected"), [(0, 1), (4, 4)])
def test_output_that_cannot_be_flushed_at_the_end_is_a_failure(
    code: int, expected: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def run() -> None:
        raise SystemExit(code)

    codes: list[int] = []
    ended: Callable[[], None] = cli.main
    monkeypatch.setattr(cli, "run", run)
    monkeypatch.setattr("atexit._run_exitfuncs", lambda: None)
    monkeypatch.setattr(os, "_exit", codes.append)
    with monkeypatch.context() as broken:
        broken.setattr("sys.stdout", SimpleNamespace(flush=Mock(side_effect=OSError(28, "No space left on device"))))
        ended()
    assert (codes, capsys.readouterr().err) == ([expected], "error: stdout: No space left on device\n")


@pytest.mark.slow
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


@pytest.mark.slow
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
