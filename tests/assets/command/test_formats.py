"""`--format` of each command that prints rows: values, columns, the choice of a format, CSV beside JSON."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import pytest
import typer

from deltasnap_assets.command.output import OutputFormat, chosen_format, csv_text, print_rows
from tests.assets.command.cli_builders import deltasnap
from tests.assets.command.commands.driver_commands_builders import run, table
from tests.builders import commit_info, metadata, protocol, write_log

EVIL = 'a, "b"\n\x1b[31m'


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a table whose texts contain commas, quotes, line breaks and escapes, and a configuration."""
    metrics = {"numFiles": "1", "plan": EVIL}
    first = [commit_info(EVIL, userName=EVIL, operationMetrics=metrics), protocol(), metadata()]
    write_log(tmp_path / "events", {0: first, 1: [commit_info("WRITE", isBlindAppend=False)]})
    text = "storage: store\ntables: [{name: events, path: events}, {name: gone, path: gone}]"
    (tmp_path / "deltasnap.yaml").write_text(text, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("DELTASNAP_CONFIG", raising=False)
    return tmp_path


COMMANDS = {
    "history": ["history", "events"],
    "init": ["init", "events", "gone", "--force", "--output", "other.yaml"],
    "check": ["check", "events"],
    "doctor": ["doctor"],
    "fleet": ["fleet"],
    "refresh": ["refresh", "gone"],
    "refresh --dry-run": ["refresh", "--dry-run"],
}


@pytest.mark.parametrize("command", COMMANDS)
def test_csv_has_the_rows_of_the_json(command: str, folder: Path) -> None:
    found = {
        form: deltasnap(*COMMANDS[command], "--format", form, folder=folder, DAGSTER_HOME="", JAVA_HOME=str(folder))
        for form in ("json", "csv")
    }
    document = json.loads(found["json"].stdout)
    rows = [*csv.DictReader(io.StringIO(found["csv"].stdout))]
    assert document["schema_version"] == 1
    assert found["json"].returncode == found["csv"].returncode
    assert len(rows) == len(document["rows"]) > 0
    for row, expected in zip(rows, document["rows"], strict=True):
        assert {name: row[name] for name in expected} == {name: text_of(value) for name, value in expected.items()}
        assert all(row[name] == "" for name in row if name not in expected)


def text_of(value: Any) -> str:
    if value is None or isinstance(value, str):
        return value or ""
    return json.dumps(value)


@pytest.mark.parametrize(
    "command",
    [["inspect", "events"], ["diff", "events", "0", "1"], ["checkpoint", "events"]],
    ids=lambda command: command[0],
)
def test_command_without_rows_has_no_csv(command: list[str], folder: Path) -> None:
    result = deltasnap(*command, "--format", "csv", folder=folder)
    assert (result.returncode, result.stdout) == (2, "")
    assert "This command prints no rows: choose table or json." in result.stderr
    assert not list((folder / "events" / "_delta_log").glob("*checkpoint*"))


@pytest.mark.parametrize("command", ["inspect", "history", "diff", "check"])
def test_alias_prints_the_json_of_the_format(command: str, tmp_path: Path) -> None:
    arguments = [command, table(tmp_path), *([0, 1] if command == "diff" else [])]
    assert run(*arguments, "--json").stdout == run(*arguments, "--format", "json").stdout
    assert run(*arguments, "--format", "table").stdout == run(*arguments).stdout


ERRORS = {
    "a row for each table": (["history", "nowhere", "--format", "json"], True),
    "a table named like a command": (["history", "scan", "--json", "--format=json"], True),
    "options before the command": (["-C", "events", "history", "nowhere", "--format", "json"], True),
    "a value named like a command": (["-C", "scan", "history", "x", "--format", "json"], True),
    "rows of a table": (["scan", "nowhere", "--format", "json"], False),
    "rows of a metadata table": (["table", "nowhere", "history", "--format=json"], False),
    "rows after options": (["--config", "deltasnap.yaml", "-q", "changes", "x", "1", "2", "--format", "json"], False),
    "a table": (["history", "nowhere"], False),
}


@pytest.mark.parametrize("case", ERRORS)
def test_error_is_an_object_if_the_output_would_be_one(case: str, folder: Path) -> None:
    arguments, is_object = ERRORS[case]
    result = deltasnap(*arguments, folder=folder)
    assert result.returncode != 0
    message = result.stderr.strip().removeprefix("error: ")
    expected = {"schema_version": 1, "error": message} if is_object else None
    found = json.loads(result.stdout) if result.stdout else None
    assert (found and {name: found[name] for name in ("schema_version", "error")}) == expected


ROWS: dict[str, tuple[Any, str]] = {
    "null": (None, ""),
    "false": (False, "false"),
    "a number": (1.5, "1.5"),
    "a comma, a quote and two lines": ('a,"b"\nc', 'a,"b"\nc'),
    "an escape": ("\x1b[31m", "\x1b[31m"),
    "a list": ([1, None], "[1, null]"),
    "an object": ({"a": {"b": "ü,"}}, '{"a": {"b": "\\u00fc,"}}'),
    "an empty list": ((), "[]"),
    "text like a number": ("007", "007"),
}


@pytest.mark.parametrize("case", ROWS)
def test_csv_has_each_value_as_one_field(case: str) -> None:
    value, expected = ROWS[case]
    header, row = csv.reader(io.StringIO(csv_text([{"before": 1, "value": value, "after": "x"}])))
    assert header == ["before", "value", "after"]
    assert row == ["1", expected, "x"]


def test_csv_on_a_terminal_has_no_control_characters(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    text = csv_text([{"a": "\x1b[2J", "b": {"c": "\x1b"}}])
    assert "\x1b" not in text
    assert text.startswith("a,b\n\\x1b[2J,")


def test_csv_has_the_columns_of_all_rows_in_their_order() -> None:
    assert csv_text([{"a": 1}, {"a": 2, "fault": None}, {"b": 3}]) == "a,fault,b\n1,,\n2,,\n,,3\n"
    assert csv_text([]) == ""


def test_json_has_the_version_of_its_schema_and_the_values_beside_the_rows(capsys: pytest.CaptureFixture[str]) -> None:
    print_rows("json", [{"a": None}], file="x")
    assert json.loads(capsys.readouterr().out) == {"schema_version": 1, "file": "x", "rows": [{"a": None}]}


@pytest.mark.parametrize(
    ("form", "as_json", "expected"),
    [(None, False, "table"), (None, True, "json"), ("json", True, "json"), ("csv", False, "csv")],
)
def test_format_is_that_of_option_or_alias(form: OutputFormat | None, as_json: bool, expected: OutputFormat) -> None:
    assert chosen_format(form, as_json) is expected


def test_alias_and_another_format_exclude_each_other() -> None:
    with pytest.raises(typer.BadParameter, match="not both"):
        chosen_format("csv", as_json=True)
