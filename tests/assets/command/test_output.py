"""The formats of commands that print rows: values, columns, the choice of a format."""

from __future__ import annotations

import csv
import io
import json
from typing import Any

import pytest
import typer

from deltasnap_assets.command.output import OutputFormat, chosen_format, csv_text, print_rows

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


def test_json_has_the_version_of_its_schema_and_the_values_beside_the_rows(
    capsys: pytest.CaptureFixture[str],
) -> None:
    print_rows("json", [{"a": None}], file="x")
    assert json.loads(capsys.readouterr().out) == {"schema_version": 1, "file": "x", "rows": [{"a": None}]}


@pytest.mark.parametrize(
    ("form", "as_json", "expected"),
    [
        (None, False, "table"),
        (None, True, "json"),
        ("json", True, "json"),
        ("csv", False, "csv"),
    ],
)
def test_format_is_that_of_the_option_or_of_its_alias(
    form: OutputFormat | None, as_json: bool, expected: OutputFormat
) -> None:
    assert chosen_format(form, as_json) is expected


def test_alias_and_another_format_exclude_each_other() -> None:
    with pytest.raises(typer.BadParameter, match="not both"):
        chosen_format("csv", as_json=True)
