"""The options before a command, the file and folder that commands use, and arguments that no command can use."""

from __future__ import annotations

import json
import os
import sys
from importlib.metadata import version
from pathlib import Path

import pytest
import typer

from deltasnap_assets.command import cli
from deltasnap_assets.command.arguments import check_file_to_write, storage_options, timestamp_argument
from tests.assets.command.cli_builders import (
    COMMAND,
    FORKS,
    assert_one_line_of_error,
    deltasnap,
    small_table,
    without_java,
)
from tests.assets.command.commands.driver_commands_builders import run, table
from tests.builders import commit_info, metadata, protocol, write_log

CONFIGURATION = "storage: store\ntables: [{name: events, path: lake/events}]\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a configuration, its table, and a folder inside of it, `deep/er`."""
    small_table(tmp_path / "lake" / "events")
    (tmp_path / "deltasnap.yaml").write_text(CONFIGURATION, encoding="utf-8")
    (tmp_path / "deep" / "er").mkdir(parents=True)
    return tmp_path


def versions(*arguments: str, folder: Path) -> list[int]:
    result = deltasnap(*arguments, "history", "events", "--json", folder=folder)
    assert (result.returncode, result.stderr) == (0, "")
    return [row["version"] for row in json.loads(result.stdout)["rows"]]


def test_configuration_is_searched_upward(folder: Path) -> None:
    assert versions(folder=folder / "deep" / "er") == [1, 0]


@pytest.mark.parametrize("option", ["-C", "--directory"])
def test_directory_is_the_command_folder(option: str, folder: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    assert versions(option, str(folder), folder=elsewhere) == [1, 0]
    assert versions(option, "deep", folder=folder) == [1, 0]
    result = deltasnap(option, str(folder), "inspect", "lake/events", folder=elsewhere, **without_java(elsewhere))
    assert (result.returncode, result.stderr) == (0, "")


def test_config_is_the_file_of_the_command_relative_to_its_directory(folder: Path) -> None:
    write_log(folder / "lake" / "other", {0: [protocol(), metadata()]})
    other = CONFIGURATION.replace("lake/events", "../lake/other")
    (folder / "deep" / "other.yaml").write_text(other, encoding="utf-8")
    assert versions("--config", "deep/other.yaml", folder=folder) == [0]
    assert versions("--config", "other.yaml", "-C", "deep", folder=folder) == [0]
    assert versions("--config", str(folder / "deep" / "other.yaml"), folder=folder / "lake") == [0]


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["-C", "nowhere"], "Invalid value for --directory: nowhere: No such file or directory."),
        (["-C", "deltasnap.yaml"], "Invalid value for --directory: deltasnap.yaml: Not a directory."),
        (["--config", "nowhere.yaml"], "Invalid value for --config: There is no file nowhere.yaml."),
        (["--config", "lake"], "Invalid value for --config: There is no file lake."),
        (["--quiet", "--verbose"], "Give --quiet or --verbose, not both."),
    ],
    ids=["no folder", "a file", "no file", "a folder", "both"],
)
def test_wrong_option_is_one_line_and_exits_with_2(arguments: list[str], expected: str, folder: Path) -> None:
    result = deltasnap(*arguments, "doctor", folder=folder)
    assert_one_line_of_error(result, expected)
    assert result.returncode == 2


def warned(folder: Path) -> None:
    """The log gets a fault that is a warning."""
    (folder / "lake" / "events" / "_delta_log" / "_last_checkpoint").write_text("{", encoding="utf-8")


def test_quiet_command_prints_no_warning(folder: Path) -> None:
    warned(folder)
    loud = deltasnap("inspect", "events", folder=folder)
    assert loud.stderr.startswith("warning: ")
    for option in ("--quiet", "-q"):
        quiet = deltasnap(option, "inspect", "events", folder=folder)
        assert (quiet.returncode, quiet.stderr, quiet.stdout) == (0, "", loud.stdout)


def test_quiet_command_prints_no_warning_that_is_logged(folder: Path) -> None:
    (folder / "lake" / "empty").mkdir()
    text = "storage: store\ndiscover: [{path: lake/empty/*}]"
    (folder / "deltasnap.yaml").write_text(text, encoding="utf-8")
    assert deltasnap("fleet", folder=folder).stderr.startswith("warning: The pattern ")
    assert deltasnap("--quiet", "fleet", folder=folder).stderr == ""


def test_quiet_command_shows_no_progress(folder: Path) -> None:
    environment = {"FORCE_COLOR": "1", "TERM": "xterm-256color"}
    arguments = ("table", "events", "files", "--format", "csv")
    assert "Reading" in deltasnap(*arguments, folder=folder, **environment).stderr
    assert deltasnap("--quiet", *arguments, folder=folder, **environment).stderr == ""


def test_quiet_command_does_not_report_that_rows_are_left_out(folder: Path) -> None:
    write_log(folder / "lake" / "events", {version: [commit_info()] for version in range(2, 22)})
    for arguments in (["history", "events"], ["table", "events", "history"]):
        assert deltasnap(*arguments, folder=folder).stderr.startswith("Only 20 ")
        assert deltasnap("--quiet", *arguments, folder=folder).stderr == ""


def test_quiet_command_prints_errors(folder: Path) -> None:
    assert_one_line_of_error(deltasnap("--quiet", "inspect", "nothing", folder=folder), "No Delta table at")


def test_verbose_command_also_prints_what_it_loads(folder: Path) -> None:
    plain = deltasnap("table", "events", "files", "--format", "csv", folder=folder)
    for option in ("--verbose", "-v"):
        verbose = deltasnap(option, "table", "events", "files", "--format", "csv", folder=folder)
        assert verbose.stdout == plain.stdout
        assert "info: Loading version 1." in verbose.stderr.splitlines()
    assert plain.stderr == ""


def test_command_without_color_prints_none(folder: Path) -> None:
    environment = {"FORCE_COLOR": "1", "TERM": "xterm-256color"}
    assert "\x1b[2m" in deltasnap("history", "events", folder=folder, **environment).stdout
    shown = deltasnap("--no-color", "history", "events", folder=folder, **environment).stdout
    assert "\x1b[3" not in shown
    assert "CREATE TABLE" in shown


def test_local_instance_is_beside_the_configuration(folder: Path) -> None:
    result = deltasnap("refresh", "--dry-run", folder=folder / "deep" / "er", DAGSTER_HOME="")
    assert (result.returncode, result.stdout) == (0, "events: 0 to 1\n")
    assert (folder / ".deltasnap" / "dagster_home" / "dagster.yaml").is_file()
    assert not list((folder / "deep" / "er").iterdir())
    (folder / "deep" / "other.yaml").write_text(CONFIGURATION.replace("lake", "../lake"), encoding="utf-8")
    for place in (folder, folder / "deep"):  # one instance for all folders and files
        deltasnap(
            "--config", str(folder / "deep" / "other.yaml"), "refresh", "--dry-run", folder=place, DAGSTER_HOME=""
        )
    assert [home.parent for home in folder.rglob("dagster_home")] == [folder / ".deltasnap"]


@pytest.mark.parametrize("command", [["refresh"], ["doctor"], ["fleet"], ["refresh", "--dry-run"]], ids=" ".join)
def test_command_without_a_configuration_does_not_use_the_demo(command: list[str], tmp_path: Path) -> None:
    demo_of(tmp_path)
    result = deltasnap(*command, folder=tmp_path)
    assert result.returncode == 1
    assert "There is no `deltasnap.yaml`" in (result.stdout if command == ["doctor"] else result.stderr)
    assert not (tmp_path / ".deltasnap" / "store").exists()


def demo_of(folder: Path) -> Path:
    """Return the configuration of a demo in a folder, which needs no Java here."""
    demo = folder / ".deltasnap" / "demo"
    small_table(demo / "events")
    text = "storage: ../store\ntables: [{name: events, path: events}]\nspark: {remote: 'sc://127.0.0.1:1'}"
    (demo / "deltasnap.yaml").write_text(text, encoding="utf-8")
    return demo / "deltasnap.yaml"


SHOWN = "import os\nos.execv = lambda *_: print('uses', os.environ.get('DELTASNAP_CONFIG'))\n" + COMMAND
"""The command, with a print of its configuration in place of Dagster's UI."""


def test_ui_follows_the_demo_only_without_a_configuration(tmp_path: Path) -> None:
    demo = demo_of(tmp_path)
    arguments = ("ui", "--port", "45123")
    assert deltasnap(*arguments, folder=tmp_path, command=SHOWN).stdout.splitlines()[-1] == f"uses {demo}"
    text = "storage: store\ntables: [{name: mine, path: t}]\nspark: {remote: 'sc://127.0.0.1:1'}"
    (tmp_path / "deltasnap.yaml").write_text(text, encoding="utf-8")
    assert deltasnap(*arguments, folder=tmp_path, command=SHOWN).stdout.splitlines()[-1] == "uses None"


NAMES = {
    "a table to refresh": ("refresh e", ["events"]),
    "all tables": ("refresh ", ["events", "clicks"]),
    "a path": ("history cl", ["clicks"]),
    "a target": ("check ev", ["events"]),
    "none": ("refresh x", []),
    "a check": ("check events --select small", ["small_files"]),
    "another check": ("check events --select small_files,conti", ["small_files,contiguous_log"]),
    "of another folder": ("-C deep/er inspect ev", ["events"]),
    "of another file": ("--config other.yaml inspect ", ["other"]),
    "a metadata table": ("table events par", ["partitions"]),
}


@pytest.mark.parametrize("case", NAMES)
def test_shell_completes_names(case: str, folder: Path) -> None:
    text = CONFIGURATION.replace("]", ", {name: clicks, path: lake/clicks}]")
    (folder / "deltasnap.yaml").write_text(text, encoding="utf-8")
    (folder / "other.yaml").write_text(CONFIGURATION.replace("events,", "other,"), encoding="utf-8")
    words, expected = NAMES[case]
    assert completed(words, folder) == expected


@pytest.mark.parametrize("text", [None, "tables: [{name: events}]", "tables: ["], ids=["none", "invalid", "not yaml"])
def test_shell_completes_nothing_without_a_valid_configuration(text: str | None, tmp_path: Path) -> None:
    if text is not None:
        (tmp_path / "deltasnap.yaml").write_text(text, encoding="utf-8")
    assert completed("refresh ", tmp_path) == []


def completed(words: str, folder: Path) -> list[str]:
    """Return what bash offers for the last word of a command line."""
    line = f"deltasnap {words}"
    environment = {
        "_DELTASNAP_COMPLETE": "complete_bash",
        "COMP_WORDS": line,
        "COMP_CWORD": str(len(line.split(" ")) - 1),
        "PYTHONPATH": ":".join(sys.path),
    }
    result = FORKS.run(COMMAND, cwd=folder, env=environment)
    assert (result.returncode, result.stderr) == (0, "")
    return result.stdout.split()


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
