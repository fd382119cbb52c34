"""The output of rows, byte for byte, also of the golden tables."""

from __future__ import annotations

import csv
import io
import json
import os
from contextlib import redirect_stdout
from decimal import Decimal
from itertools import islice
from pathlib import Path
from queue import Queue
from threading import Thread
from typing import Any, get_args

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import typer
from pyspark.sql.pandas.types import from_arrow_schema

from deltasnap_assets.command.endings import problem_of_a_folder
from deltasnap_assets.command.rows.row_options import (
    DEFAULT_LIMIT,
    MAX_TABLE_ROWS,
    RowDestination,
    RowFormat,
    row_destination,
)
from deltasnap_assets.command.rows.row_output import (
    collect_rows,
    collect_scan,
    valid_condition,
    write_collected,
    write_rows,
)
from deltasnap_core import DeltaSnapError
from deltasnap_core.errors import PredicateError
from tests.assets.command.cli_builders import FORKS
from tests.core.scan.golden_rows_builders import cases, counted

ROWS = pa.table({"id": [1, None], "text": ['a,"b"\n', ""], "tags": [[1], None]})
EVIL = pa.table({"[red]x": ["\x1b[31m[bold]red\u202e"]})


def written(rows: pa.Table, form: RowFormat, tmp_path: Path) -> bytes:
    write_rows(rows, form, tmp_path / "rows")
    return (tmp_path / "rows").read_bytes()


def test_csv_has_exact_values_and_distinguishes_null_from_empty(tmp_path: Path) -> None:
    assert written(ROWS, "csv", tmp_path) == b'id,text,tags\n1,"a,""b""\n",[1]\n,"",\n'


@pytest.mark.parametrize("text", [" a", "a ", "a,b", 'a"b', "a\nb", "a\rb", "\ta"])
def test_csv_quotes_what_a_reader_would_change(text: str, tmp_path: Path) -> None:
    found = written(pa.table({"x": [text], "y": ["plain text"]}), "csv", tmp_path).decode()
    quoted = text.replace('"', '""')
    assert found == f'x,y\n"{quoted}",plain text\n'


def test_csv_of_one_column_has_no_blank_lines_which_readers_skip(tmp_path: Path) -> None:
    found = written(pa.table({"x": ["a", None, ""]}), "csv", tmp_path)
    assert found == b'x\na\n""\n""\n'
    assert list(csv.reader(found.decode().splitlines())) == [["x"], ["a"], [""], [""]]


def test_csv_of_a_file_keeps_control_characters(tmp_path: Path) -> None:
    assert written(EVIL, "csv", tmp_path).decode() == "[red]x\n\x1b[31m[bold]red\u202e\n"


@pytest.mark.parametrize("wrap", [lambda t: t, pa.list_, lambda t: pa.map_(pa.string(), pa.struct([("a", t)]))])
def test_parquet_of_a_struct_without_fields_is_an_error_with_the_column(wrap: Any, tmp_path: Path) -> None:
    rows = pa.table({"id": [1], "e": pa.array([None], wrap(pa.struct([])))})
    with pytest.raises(DeltaSnapError, match=r"^Column e of type .* cannot be written as Parquet\. Write JSON"):
        written(rows, "parquet", tmp_path)
    assert json.loads(written(rows, "json", tmp_path)) == {"id": 1, "e": None}


def test_json_is_one_object_per_row_with_nulls(tmp_path: Path) -> None:
    lines = written(ROWS, "json", tmp_path).splitlines()
    assert list(map(json.loads, lines)) == ROWS.to_pylist()


def test_json_escapes_control_characters(tmp_path: Path) -> None:
    (line,) = written(EVIL, "json", tmp_path).splitlines()
    assert json.loads(line) == EVIL.to_pylist()[0]
    assert line.isascii()
    assert b"\x1b" not in line


def test_parquet_has_the_rows_and_no_time_zone_of_the_session(tmp_path: Path) -> None:
    rows = pa.table(
        {"at": pa.array([1], pa.timestamp("us", "Europe/Berlin")), "local": pa.array([1], pa.timestamp("us"))}
    )
    write_rows(rows, "parquet", tmp_path / "rows.parquet")
    assert list(map(str, pq.read_schema(tmp_path / "rows.parquet").types)) == ["timestamp[us, tz=UTC]", "timestamp[us]"]
    assert pq.read_table(tmp_path / "rows.parquet")["local"].to_pylist() == rows["local"].to_pylist()


def test_table_in_a_file_has_one_line_per_row_and_no_control_characters(tmp_path: Path) -> None:
    header, *lines = written(pa.concat_tables([EVIL] * 3), "table", tmp_path).decode().splitlines()
    assert header.rstrip() == "[red]x"
    assert [line.rstrip() for line in lines] == [r"\x1b[31m[bold]red\u202e"] * 3


def test_numbers_of_a_table_are_on_the_right_and_nulls_are_named(tmp_path: Path) -> None:
    columns = {"id": [1, None, 300], "price": [Decimal("1.50"), Decimal(20), None], "text": ["a", None, "bcd"]}
    assert written(pa.table(columns), "table", tmp_path).decode().splitlines() == [
        "  id  price  text",
        "   1   1.50  a   ",
        "null  20.00  null",
        " 300   null  bcd ",
    ]


def test_table_of_many_columns_is_not_folded_in_a_file(tmp_path: Path) -> None:
    rows = pa.table({f"column{number}": ["x" * 500] for number in range(250)})
    assert len(written(rows, "table", tmp_path).splitlines()) == 2


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    monkeypatch.setenv("COLUMNS", "60")
    monkeypatch.setenv("TERM", "xterm")
    return Terminal()


@pytest.mark.parametrize("form", ["table", "csv", "json"])
def test_data_does_not_control_a_terminal(form: RowFormat, terminal: Terminal) -> None:
    with redirect_stdout(terminal):
        write_rows(EVIL, form, None)
    assert "\x1b[31m" not in terminal.getvalue()
    assert "\u202e" not in terminal.getvalue()
    assert "[bold]red" in terminal.getvalue()


def test_row_too_wide_for_the_terminal_is_a_list_of_values(terminal: Terminal) -> None:
    with redirect_stdout(terminal):
        write_rows(pa.table({f"column{number}": [number] for number in range(20)}), "table", None)
    lines = terminal.getvalue().splitlines()
    assert "\x1b[1;2mrow 1" in lines[0]
    assert "\x1b[1mcolumn0" in lines[1]
    assert len(lines) == 21


@pytest.mark.parametrize(("columns", "is_list"), [(6, False), (7, True)])
def test_table_has_eight_characters_for_each_column(columns: int, is_list: bool, terminal: Terminal) -> None:
    with redirect_stdout(terminal):
        write_rows(pa.table({f"c{number}": [number] for number in range(columns)}), "table", None)
    assert ("row 1" in terminal.getvalue()) == is_list
    assert is_list or terminal.getvalue().startswith("\x1b[1mc0")


@pytest.mark.parametrize(("position", "place"), [(None, ""), (4, " (at character 5)")])
def test_invalid_condition_is_wrong_usage_with_its_position(position: int | None, place: str) -> None:
    with pytest.raises(typer.BadParameter, match="no such column") as raised, valid_condition("x = 1"):
        raise PredicateError(predicate="x = 1", reason="no such column", position=position)
    assert (raised.value.message, raised.value.param_hint) == (f"no such column{place}", "--where")


@pytest.mark.parametrize("form", ["csv", "parquet"])
def test_rows_in_a_pipe_are_exact(form: RowFormat, tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    write_rows(EVIL, form, None)
    piped = capfdbinary.readouterr().out
    assert piped == written(EVIL, form, tmp_path)


def test_parquet_on_a_terminal_is_rejected_before_anything_is_read(terminal: Terminal) -> None:
    with redirect_stdout(terminal), pytest.raises(typer.BadParameter, match="Add -O FILE"):
        row_destination("parquet", None, None)
    assert row_destination("parquet", Path("x"), None).form == "parquet"
    assert terminal.getvalue() == ""


@pytest.mark.parametrize("form", ["json", "parquet"])
def test_duplicate_column_names_are_rejected_if_one_would_be_lost(form: RowFormat, tmp_path: Path) -> None:
    rows = pa.table([[1], [2]], names=["b", "b"])
    with pytest.raises(DeltaSnapError, match="Two columns are named b"):
        write_rows(rows, form, tmp_path / "rows")
    assert written(rows, "csv", tmp_path) == b"b,b\n1,2\n"


def test_failure_does_not_change_the_file(tmp_path: Path) -> None:
    (tmp_path / "rows").write_text("before")
    with pytest.raises(Exception, match="duration"):
        write_rows(pa.table({"x": pa.array([1], pa.duration("us"))}), "csv", tmp_path / "rows")
    assert [(file.name, file.read_text()) for file in tmp_path.iterdir()] == [("rows", "before")]


def test_reader_of_the_earlier_file_still_reads_it(tmp_path: Path) -> None:
    (tmp_path / "rows").write_text("before")
    with (tmp_path / "rows").open() as reader:
        write_rows(ROWS, "csv", tmp_path / "rows")
        assert reader.read() == "before"


def test_target_of_a_link_is_replaced_and_not_the_link(tmp_path: Path) -> None:
    (tmp_path / "target").write_text("before")
    (tmp_path / "rows").symlink_to(tmp_path / "target")
    (tmp_path / "lost").symlink_to(tmp_path / "none" / "x")
    assert written(ROWS.select(["id"]), "csv", tmp_path) == b'id\n1\n""\n'
    assert (tmp_path / "rows").is_symlink()
    assert (tmp_path / "target").read_text() == 'id\n1\n""\n'
    with pytest.raises(typer.BadParameter, match=f"There is no folder {tmp_path}/none"):
        row_destination(None, tmp_path / "lost", None)


def test_rows_are_written_to_a_named_pipe_which_remains(tmp_path: Path) -> None:
    pipe, found = tmp_path / "rows", Queue[bytes]()
    os.mkfifo(pipe)
    Thread(target=lambda: found.put(pipe.read_bytes()), daemon=True).start()
    (tmp_path / "rows.csv").symlink_to(pipe)
    assert row_destination(None, tmp_path / "rows.csv", None).form == "csv"
    write_rows(ROWS.select(["id"]), "csv", tmp_path / "rows.csv")
    assert found.get(timeout=60) == b'id\n1\n""\n'
    assert pipe.is_fifo()


@pytest.mark.parametrize("form", get_args(RowFormat))
def test_full_disk_is_reported_with_the_name_of_the_file(form: RowFormat) -> None:
    with pytest.raises(OSError, match="No space left on device") as raised:
        write_rows(ROWS, form, Path("/dev/full"))
    assert problem_of_a_folder(raised.value) == "/dev/full: No space left on device."


@pytest.mark.parametrize(
    ("form", "name", "expected"),
    [(None, None, "table"), (None, "x.csv", "csv"), (None, "x.JSONL", "json"), (None, "x.parquet", "parquet"),
     (None, "x", "table"), ("json", "x.csv", "json")],
)  # fmt: skip
def test_format_follows_the_ending(form: RowFormat | None, name: str | None, expected: str, tmp_path: Path) -> None:
    assert row_destination(form, None if name is None else tmp_path / name, None).form == expected


def test_file_in_no_folder_is_wrong_usage(tmp_path: Path) -> None:
    for out in (tmp_path, tmp_path / "none" / "x"):
        with pytest.raises(typer.BadParameter):
            row_destination(None, out, None)


@pytest.mark.parametrize(
    ("option", "limit", "is_default"),
    [(None, DEFAULT_LIMIT, True), (0, None, False), (5, 5, False), (10**20, 2**31 - 2, False)],
)
def test_limit_of_zero_is_no_limit(option: int | None, limit: int | None, is_default: bool) -> None:
    found = row_destination("csv", None, option)
    assert (found.limit, found.is_default_limit) == (limit, is_default)


@pytest.mark.parametrize(("option", "limit"), [(0, 1_000), (5_000, 1_000), (1_000, 1_000), (5, 5), (None, 20)])
def test_table_has_a_maximum_of_rows(option: int | None, limit: int) -> None:
    assert row_destination(None, None, option).limit == limit


def test_notice_reports_the_maximum_of_a_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_collected(ROWS, row_destination(None, tmp_path / "x", 0), is_cut=True)
    assert "Only 1,000 rows are shown; there are more. --format csv --limit 0 shows all." in capsys.readouterr().err


class Frame:
    """A fake DataFrame with the methods used."""

    def __init__(self, rows: pa.Table) -> None:
        self._rows = rows
        self.columns = rows.column_names
        self.schema = from_arrow_schema(rows.schema)

    def limit(self, most: int) -> Frame:
        return Frame(self._rows.slice(0, most))

    def toArrow(self) -> pa.Table:  # noqa: N802  # Spark's name
        return self._rows


@pytest.mark.parametrize(("limit", "expected"), [(None, (2, False)), (2, (2, False)), (1, (1, True))])
def test_truncated_rows_are_detected(limit: int | None, expected: tuple[int, bool]) -> None:
    frame: Any = Frame(ROWS)
    rows, is_cut = collect_rows(frame, limit)
    assert (rows.num_rows, is_cut) == expected


def test_rows_without_columns_keep_their_number() -> None:
    scan: Any = FakeScan(ROWS.select([]))
    assert collect_scan(scan, 20)[0].num_rows == 2


class FakeScan:
    """A scan of a few rows."""

    def __init__(self, rows: pa.Table) -> None:
        self._rows = rows

    def take(self, count: int) -> pa.Table:
        assert count >= self._rows.num_rows
        return self._rows


@pytest.mark.parametrize(
    ("is_cut", "is_default", "reported"), [(True, True, True), (True, False, False), (False, True, False)]
)
def test_notice_appears_only_for_the_default_limit(
    is_cut: bool, is_default: bool, reported: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    to = RowDestination(form="csv", out=tmp_path / "x", limit=2, is_default_limit=is_default)
    write_collected(ROWS, to, is_cut=is_cut)
    assert ("Only 2 rows" in capsys.readouterr().err) is reported


@pytest.mark.slow
def test_closed_pipe_is_not_an_error() -> None:
    script = (
        "import os, threading\n"
        "reader, writer = os.pipe()\n"
        "os.dup2(writer, 1)\n"
        "os.close(writer)\n"
        "def read() -> None:\n"
        "    assert os.read(reader, 2) == b'x\\n'\n"
        "    os.close(reader)\n"
        "threading.Thread(target=read).start()\n"
        "import pyarrow as pa\n"
        "from deltasnap_assets.command.rows.row_output import write_rows\n"
        "write_rows(pa.table({'x': list(range(100_000))}), 'csv', None)\n"
    )
    result = FORKS.run(script)
    assert (result.returncode, result.stderr) == (0, "")


@pytest.mark.parametrize(("limit", "expected"), [(None, DEFAULT_LIMIT), (1, 1), (MAX_TABLE_ROWS, MAX_TABLE_ROWS)])
def test_table_has_as_many_rows_as_requested(limit: int | None, expected: int) -> None:
    assert row_destination("table", None, limit).limit == expected


@pytest.mark.parametrize("limit", [0, MAX_TABLE_ROWS + 1])
def test_table_has_at_most_the_rows_that_can_be_aligned(limit: int) -> None:
    assert row_destination("table", None, limit).limit == MAX_TABLE_ROWS
    assert row_destination("csv", None, limit).limit == (limit or None)


MAX_ROWS = 200  # a table of decimals has 1,000,000


@pytest.mark.parametrize("expected", list(cases()))
def test_rows_are_written_completely_in_each_format(expected: Path, tmp_path: Path) -> None:
    file = pq.ParquetFile(expected)
    rows = pa.Table.from_batches(islice(file.iter_batches(MAX_ROWS), 1), schema=file.schema_arrow)
    few = rows.slice(0, 20)
    for form in get_args(RowFormat):
        write_rows(few if form == "table" else rows, form, tmp_path / form)

    names = rows.column_names
    assert counted(pq.read_table(tmp_path / "parquet"), names) == counted(rows, names)
    objects = [json.loads(line) for line in (tmp_path / "json").read_text(encoding="utf-8").splitlines()]
    assert [list(each) for each in objects] == [names] * rows.num_rows
    for column in names:
        nulls = sum(each[column] is None for each in objects)
        assert nulls == rows[column].null_count
    with (tmp_path / "csv").open(encoding="utf-8", newline="") as file:
        lines = list(csv.reader(file))
    assert lines[0] == names
    assert len(lines) == 1 + rows.num_rows
    assert len((tmp_path / "table").read_text(encoding="utf-8").splitlines()) == 1 + few.num_rows
