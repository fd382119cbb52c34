from __future__ import annotations

import io
import logging
import os
import tempfile
from pathlib import Path

import pytest
from rich.console import Console

from deltasnap_assets.command import terminal
from deltasnap_assets.command.terminal import (
    output_aside,
    output_console,
    output_to,
    prepare_terminal,
    print_problem,
    shown,
)
from deltasnap_core import CorruptLogError


def printed(*parts: object) -> str:
    console = Console(file=io.StringIO(), width=200)
    for part in parts:
        console.print(part)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_shown_text_contains_no_markup_or_escapes() -> None:
    assert printed(shown("[red]a[/red] \x1b[31m [link=http://x]")) == "[red]a[/red] \\x1b[31m [link=http://x]\n"


def test_problem_is_one_line() -> None:
    console = Console(file=io.StringIO(), width=20)
    print_problem(console, "error", "a\nb [/nothing] s3://me:hunter2@lake/t " + "x" * 100)
    assert isinstance(console.file, io.StringIO)
    line = console.file.getvalue()
    assert line.startswith(r"error: a\nb [/nothing] s3://")
    assert line.count("\n") == 1
    assert "hunter2" not in line


def test_output_goes_to_the_log_the_console_to_the_terminal(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    log = tmp_path / "logs" / "spark" / "log"
    with output_to(log) as (out, err):
        os.write(2, b"noise")
        out.print("told")
        err.print("failed")
    os.write(1, b"later\n")
    os.write(2, b"again\n")
    assert log.read_bytes() == b"noise"
    assert capfd.readouterr() == ("told\nlater\n", "failed\nagain\n")


def print_and_fail(text: bytes, error: Exception) -> None:
    with output_aside():
        os.write(1, text)
        raise error


def test_redirected_output_leaves_no_file_and_is_shown_on_failure(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with output_aside():
        os.write(1, b"noise\n")
    assert capfd.readouterr() == ("", "")
    with pytest.raises(CorruptLogError):
        print_and_fail(b"noise\n", CorruptLogError(path="p", reason="says it itself"))
    assert capfd.readouterr() == ("", "")
    with pytest.raises(OSError, match="broken"):
        print_and_fail(b"".join(b"line %d\x1b\n" % number for number in range(9)), OSError("broken"))
    assert capfd.readouterr().err.splitlines() == [f"line {number}\\x1b" for number in range(4, 9)]
    assert list(tmp_path.iterdir()) == []


def test_warnings_are_shown_beside_output(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    prepare_terminal()
    monkeypatch.setattr("sys.stderr", os.fdopen(2, "w", closefd=False))  # as in a command
    with output_aside():
        os.write(2, b"noise\n")
        logging.getLogger("deltasnap_core").warning("The checkpoint is damaged")
    assert capfd.readouterr() == ("", "warning: The checkpoint is damaged\n")


def test_warnings_of_the_core_are_escaped_lines(capsys: pytest.CaptureFixture[str]) -> None:
    prepare_terminal()
    prepare_terminal()
    log = logging.getLogger("deltasnap_core")
    try:
        log.getChild("anything").warning("odd file %s", "[b]\x1b[0m")
        assert capsys.readouterr().err == "warning: odd file [b]\\x1b[0m\n"
    finally:
        log.handlers.clear()


def test_repeated_warning_is_printed_once(capsys: pytest.CaptureFixture[str]) -> None:
    log = logging.Logger("any")
    log.addHandler(terminal.WarningLines(logging.WARNING))
    for path in ("a", "b", "a"):
        log.warning("%s is ignored", path)
    assert capsys.readouterr().err == "warning: a is ignored\nwarning: b is ignored\n"


def test_output_without_a_terminal_is_as_wide_as_its_content(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdout", io.StringIO())
    monkeypatch.delenv("COLUMNS", raising=False)
    assert output_console().width == terminal.WIDEST
    monkeypatch.setenv("COLUMNS", "60")
    assert output_console().width == 60


def test_closed_streams_become_the_null_device(monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[tuple[int, str]] = []
    monkeypatch.setattr(terminal, "_null_device", lambda *given: opened.append(given))
    with monkeypatch.context() as closed:
        for name in ("stdin", "stdout", "stderr"):
            closed.setattr(f"sys.{name}", None)
        prepare_terminal()
    logging.getLogger("deltasnap_core").handlers.clear()
    assert opened == [(0, "r"), (1, "w"), (2, "w")]


@pytest.mark.parametrize("is_free", [True, False], ids=["the next descriptor", "another descriptor"])
def test_null_device_takes_the_descriptor_of_a_stream(is_free: bool, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    descriptor = os.open(tmp_path / "file", os.O_RDWR)
    if is_free:
        os.close(descriptor)  # the next file that is opened takes it
    next_one = os.dup(0)
    os.close(next_one)
    with terminal._null_device(descriptor, "w") as stream:
        print("lost", file=stream, flush=True)
        assert stream.fileno() == descriptor
        assert os.fstat(descriptor).st_rdev == Path(os.devnull).stat().st_rdev
    assert (tmp_path / "file").read_bytes() == b""
    after = os.dup(0)
    os.close(after)
    assert after == min(descriptor, next_one)  # nothing stays open


def test_console_whose_reader_is_gone_prints_nothing_more(tmp_path: Path) -> None:
    reader, writer = os.pipe()
    real = os.dup(1)
    os.dup2(writer, 1)
    os.close(writer)
    try:
        with output_to(tmp_path / "log") as (out, _):
            out.print("first")
            assert os.read(reader, 100) == b"first\n"
            os.close(reader)
            out.print("second")
            out.print("third")
            assert out.quiet
    finally:
        os.dup2(real, 1)
        os.close(real)


@pytest.mark.parametrize(("kind", "colour"), [("error", 31), ("warning", 33)])
def test_mark_of_a_problem_has_its_colour(kind: str, colour: int) -> None:
    console = Console(file=io.StringIO(), force_terminal=True, color_system="standard")
    print_problem(console, kind, "lost")
    assert isinstance(console.file, io.StringIO)
    assert console.file.getvalue() == f"\x1b[{colour}m{kind}:\x1b[0m lost\n"


def test_long_message_is_truncated() -> None:
    assert len(terminal.error_text("x" * 4000)) == 4000
    assert terminal.error_text("x" * 5000) == "x" * 4000 + "… (1,000 more characters)"


def test_characters_that_the_terminal_cannot_encode_are_escaped(monkeypatch: pytest.MonkeyPatch) -> None:
    ascii_only = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    monkeypatch.setattr("sys.stdout", ascii_only)
    prepare_terminal()
    logging.getLogger("deltasnap_core").handlers.clear()
    print("caf\u00e9", end="", flush=True)
    assert ascii_only.buffer.getvalue() == b"caf\\xe9"
