"""Arguments that no command can use are wrong usage: one line, and exit code 2."""

from __future__ import annotations

import os
from importlib.metadata import version
from pathlib import Path

import pytest
import typer

from deltasnap_assets.command import cli
from deltasnap_assets.command.arguments import check_file_to_write, storage_options, timestamp_argument
from tests.assets.command.commands.driver_commands_builders import run, table

WRONG = {
    "inspect without a path": (["inspect", ""], "found an empty text"),
    "history without a path": (["history", ""], "found an empty text"),
    "init without a path": (["init", ""], "found an empty text"),
    "init into no folder": (["init", "events", "--out", "missing/x.yaml"], "There is no folder"),
    "init onto a folder": (["init", "events", "--out", "events", "--force"], "is a folder"),
    "endless retention": (
        ["vacuum", "events", "--dry-run", "--retain", "inf"],
        "should be less than or equal to 1000000",
    ),
    "retention that is no number": (["vacuum", "events", "--dry-run", "--retain", "nan"], "should be "),
    "ui on no address": (["ui", "--host", "x" * 64], f"'{'x' * 64}' is not an address ("),
}


@pytest.mark.parametrize("case", WRONG)
def test_invalid_argument_is_wrong_usage(case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    arguments, reported = WRONG[case]
    table(tmp_path)
    monkeypatch.chdir(tmp_path)
    result = run(*arguments)
    assert result.exit_code == 2
    assert reported in " ".join(result.output.replace("│", " ").split())


@pytest.mark.parametrize(
    ("arguments", "reported"),
    [
        (["fleet", "--only", "foo"], "Invalid value for '--only': 'foo' is not one of 'broken'"),
        (["inspect", "events", "--version", "x"], "Invalid value for '--version': must be a valid integer. See"),
        (["demo", "--remote", "foo"], "Invalid value for --remote: expected a Spark Connect address"),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else "",
)
def test_invalid_value_is_reported_without_names_of_classes(
    arguments: list[str], reported: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["deltasnap", *arguments])
    with pytest.raises(SystemExit):
        cli.run()
    assert reported in capsys.readouterr().err


def test_output_in_a_folder_without_permission_is_wrong_usage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "access", lambda *_: False)
    with pytest.raises(typer.BadParameter, match="No permission to write"):
        check_file_to_write(tmp_path / "x.yaml")


def test_true_and_false_are_booleans_in_storage_options() -> None:
    # Of the text `false`, s3fs takes `anon` as true.
    assert storage_options(["anon=false", "use_ssl=True", "key=1", "name=a=b"]) == {
        "anon": False,
        "use_ssl": True,
        "key": "1",
        "name": "a=b",
    }
    assert storage_options(None) == {}


def test_version_is_that_of_the_distribution() -> None:
    assert run("--version").stdout == f"deltasnap {version('dagster-deltasnap')}\n"


def test_storage_options_may_be_numbers() -> None:
    given = ["port:=22", "port_as_text=22", "timeout:=0.5", "retries:=-1", "url=a:=b"]
    assert storage_options(given) == {"port": 22, "port_as_text": "22", "timeout": 0.5, "retries": -1, "url": "a:=b"}
    for wrong in ("port:=hunter2", ":=1"):
        with pytest.raises(typer.BadParameter) as raised:
            storage_options([wrong])
        assert "hunter2" not in str(raised.value)


def test_timestamp_of_a_path_is_a_local_time_in_milliseconds() -> None:
    assert timestamp_argument("20231114221320009") == timestamp_argument("2023-11-14T22:13:20.009")
    with pytest.raises(typer.BadParameter, match="found '2023111422132'"):
        timestamp_argument("2023111422132")


def test_timestamp_keeps_its_milliseconds() -> None:
    texts = "1970-01-01T00:00:00Z", "2004-01-02T00:00:00.001Z", "2038-02-01T12:00:00.009+00:00"
    assert [timestamp_argument(text) for text in texts] == [0, 1_073_001_600_001, 2_148_638_400_009]
