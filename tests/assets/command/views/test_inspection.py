"""The output of `inspect` for unusual tables, before Spark would start."""

from __future__ import annotations

import io
import json
import os
import re
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from deltasnap_assets.command.views.counting import count
from deltasnap_assets.command.views.history import LostCommits, read_history
from deltasnap_assets.command.views.inspect_view import inspect
from deltasnap_assets.command.views.inspection import Wanted, read_facts, show_facts
from deltasnap_assets.quantities import bytes_text
from deltasnap_core import DeltaHistory, TableLog
from deltasnap_core.errors import TimestampNotFoundError
from deltasnap_core.protocol.log_files.file_names import checksum_file, commit_file
from tests.builders import add, commit_info, compaction_file, metadata, mtime_of, protocol, timed_protocol, write_log
from tests.checkpoint_files import write_checkpoint


def inspected(path: Path, *actions: Any) -> str:
    write_log(path, {0: [protocol(), *actions, add("a.parquet")]})
    console = Console(file=io.StringIO(), width=160)
    show_facts(console, read_facts(str(path), {}, Wanted()), None)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_parameters_of_commits_are_readable_on_a_narrow_terminal(tmp_path: Path) -> None:
    info = commit_info("WRITE", operationParameters={"mode": "Overwrite", "partitionBy": '["day"]'})
    write_log(tmp_path, {0: [info, protocol(), metadata()]})
    console = Console(file=io.StringIO(), width=60)
    show_facts(console, read_facts(str(tmp_path), {}, Wanted()), None)
    assert isinstance(console.file, io.StringIO)
    text = console.file.getvalue()
    assert "mode=Overwrite" in text
    assert text.count("]") == 1
    assert "committed (UTC)" in text


@pytest.mark.parametrize("width", [80, 100, 110, 120, 160])
def test_names_of_parameters_are_not_broken_beside_long_texts(width: int, tmp_path: Path) -> None:
    parameters = {"mode": "Overwrite", "partitionBy": '["day"]'}
    name, engine = "CREATE OR REPLACE TABLE AS SELECT", "Apache-Spark/3.5.0 Delta-Lake/3.2.0"
    write_log(
        tmp_path, {0: [commit_info(name, operationParameters=parameters, engineInfo=engine), protocol(), metadata()]}
    )
    console = Console(file=io.StringIO(), width=width)
    show_facts(console, read_facts(str(tmp_path), {}, Wanted()), None)
    assert isinstance(console.file, io.StringIO)
    text = console.file.getvalue()
    assert "mode=Overwrite" in text
    assert 'partitionBy=["day"]' in text
    assert max(map(len, text.splitlines()[text.splitlines().index("last 1 commit") :])) <= width


SCHEMAS = {
    "not JSON": (
        "{nope",
        "cannot be read: metaData.schemaString: expected JSON, found '{nope': Expecting property name",
    ),
    "no fields": ('{"type":"struct"}', "cannot be read: metaData.schemaString: a struct without an array of fields"),
    "too deep": ("[" * 100_000, "cannot be read: metaData.schemaString: expected JSON, found"),
    "type without a name": (
        '{"type":"struct","fields":[{"name":"a","type":{}}]}',
        "cannot be read: metaData.schemaString",
    ),
    "field without nullable": ('{"type":"struct","fields":[{"name":"a","type":"long"}]}', "a       bigint  yes"),
}


@pytest.mark.parametrize("case", SCHEMAS)
def test_schema_that_cannot_be_read_is_a_note(case: str, tmp_path: Path) -> None:
    schema, expected = SCHEMAS[case]
    assert expected in inspected(tmp_path, metadata(schemaString=schema))


def test_text_of_the_log_cannot_control_the_output(tmp_path: Path) -> None:
    reported = inspected(
        tmp_path,
        commit_info("[red]W[/x]\x1b[2J", userName="\u202eada"),
        metadata(name="[link=x]", description="\x1b]0;title\x07", configuration={"k\x1b": "[b]"}),
    )
    for part in (r"[red]W[/x]\x1b[2J", r"\u202eada", "[link=x]", r"\x1b]0;title\x07", r"k\x1b = [b]"):
        assert part in reported
    assert "\x1b" not in reported


@pytest.mark.parametrize("number", [200, 201])
def test_two_hundred_properties_are_shown(number: int, tmp_path: Path) -> None:
    reported = inspected(tmp_path, metadata(configuration={f"key{each:03}": "v" for each in range(number)}))
    assert ("key199" in reported, "key200" in reported) == (True, False)
    assert ("and 1 more" in reported) == (number == 201)


def test_long_values_are_truncated(tmp_path: Path) -> None:
    reported = inspected(tmp_path, metadata(description="d" * 100_000))
    assert "(99,500 more characters)" in reported


def test_parameters_of_a_commit_are_cut_after_a_hundred_characters(tmp_path: Path) -> None:
    shown = inspected(tmp_path, commit_info("WRITE", operationParameters={"p": "q" * 200}), metadata())
    assert shown.count("q") == 98  # after the name and the sign
    assert "(102 more" in shown


@pytest.mark.parametrize("number", [200, 201])
def test_two_hundred_columns_are_shown(number: int, tmp_path: Path) -> None:
    fields = [{"name": f"c{each:03}", "type": "long", "nullable": True, "metadata": {}} for each in range(number)]
    shown = inspected(tmp_path, metadata(schemaString=json.dumps({"type": "struct", "fields": fields})))
    assert ("c199" in shown, "c200" in shown) == (True, False)
    assert ("... " in shown and "and 1 more" in shown) == (number == 201)


def test_segment_names_its_compactions_and_its_checksum(tmp_path: Path) -> None:
    log = write_log(tmp_path, {0: [protocol(), metadata()], 1: [add("a")], 2: [add("b")]})
    (log / compaction_file(1, 2)).write_bytes((log / commit_file(1)).read_bytes())
    (log / checksum_file(2)).write_text("{}")
    console = Console(file=io.StringIO(), width=100)
    show_facts(console, read_facts(str(tmp_path), {}, Wanted()), "a note")
    assert isinstance(console.file, io.StringIO)
    lines = [line.rstrip() for line in console.file.getvalue().splitlines()]
    assert lines[1] == "version         2, committed 2023-11-14 22:15:20 UTC, a note"
    assert lines[5:9] == [
        "checkpoint      none",
        f"commits read    3 (all), {bytes_text(sum(file.stat().st_size for file in log.glob('*[0-9].json')))}",
        "compactions     1",
        f"checksum file   {checksum_file(2)}",
    ]


@pytest.mark.parametrize(
    ("width", "names"),
    [
        (59, ["version", "committed (UTC)", "operation"]),
        (60, ["version", "committed (UTC)", "operation", "parameters"]),
        (99, ["version", "committed (UTC)", "operation", "parameters"]),
        (100, ["version", "committed (UTC)", "operation", "by", "parameters"]),
    ],
)
def test_history_has_the_columns_that_fit(width: int, names: list[str], tmp_path: Path) -> None:
    write_log(tmp_path, {0: [commit_info("WRITE", userName="ada"), protocol(), metadata()]})
    console = Console(file=io.StringIO(), width=width)
    show_facts(console, read_facts(str(tmp_path), {}, Wanted()), None)
    assert isinstance(console.file, io.StringIO)
    lines = console.file.getvalue().splitlines()
    assert re.split("  +", lines[lines.index("last 1 commit") + 1].strip()) == names


def test_version_at_a_time_is_shown(tmp_path: Path) -> None:
    write_log(tmp_path, {0: [protocol(), metadata()], 1: [add("a")], 2: [add("b")]})
    facts = read_facts(str(tmp_path), {}, Wanted(timestamp_ms=mtime_of(1) + 1, commits=1))
    assert (facts.segment.version, facts.timestamp_ms) == (1, mtime_of(1))
    assert [entry.version for entry in facts.history] == [1]
    assert read_facts(str(tmp_path), {}, Wanted(commits=2)).history[-1].version == 1
    assert read_facts(str(tmp_path), {}, Wanted(version=0)).segment.version == 0
    with pytest.raises(TimestampNotFoundError):
        read_facts(str(tmp_path), {}, Wanted(timestamp_ms=0))


@pytest.mark.parametrize(("is_damaged", "time"), [(False, 7), (True, mtime_of(1))])
def test_version_has_the_time_of_its_commit_or_else_of_its_file(is_damaged: bool, time: int, tmp_path: Path) -> None:
    described = timed_protocol(), metadata(configuration={"delta.enableInCommitTimestamps": "true"})
    times = [commit_info(inCommitTimestamp=each) for each in (6, 7)]
    log = write_log(tmp_path, {0: [times[0], *described], 1: [times[1], add("a")]})
    write_checkpoint(log, 1, "classic", [*described, add("a")])
    if is_damaged:
        (log / commit_file(1)).write_bytes(b"{")
        os.utime(log / commit_file(1), (mtime_of(1) / 1000,) * 2)
    assert read_facts(str(tmp_path), {}, Wanted()).timestamp_ms == time


def test_files_are_counted_at_the_requested_version(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    files = [[protocol(), metadata(), add("0")], [add("1"), add("2")], [add("3")]]
    write_log(tmp_path / "events", dict(enumerate(files)))
    facts = read_facts(str(tmp_path / "events"), {}, Wanted(version=1))
    assert (facts.segment.version, facts.latest) == (1, 2)
    snapshot, _ = count(facts, {})
    assert snapshot.computed_state.num_of_files == 3
    assert snapshot.computed_by.startswith("driver: ")


@pytest.mark.parametrize(
    ("wrong", "named"),
    [({}, None), ({"numFiles": 7}, "num_files"), ({"protocol": protocol(2, 5)["protocol"]}, "protocol")],
)
def test_checksum_that_differs_from_the_log_is_one_warning(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], wrong: dict[str, Any], named: str | None
) -> None:
    counts = {"tableSizeBytes": 1, "numFiles": 1, "numMetadata": 1, "numProtocol": 1}
    log = write_log(tmp_path / "t", {0: [protocol(), metadata(), add("a")]})
    right = {**counts, **protocol(), "metadata": metadata()["metaData"]}
    (log / checksum_file(0)).write_text(json.dumps({**right, **wrong}))
    assert inspect(str(tmp_path / "t"), {}, Wanted(commits=1), as_json=False)
    problems = capsys.readouterr().err
    assert problems.count("warning: ") == (0 if named is None else 1)
    assert named is None or f"The log differs from the checksum of version 0: {named}." in problems


def test_protocol_and_metadata_are_those_of_the_log_though_the_checksum_differs(tmp_path: Path) -> None:
    log = write_log(tmp_path, {0: [protocol(), metadata(name="events"), add("a")]})
    wrong = {**protocol(2, 5), "metadata": metadata(name="other")["metaData"]}
    counts = {"tableSizeBytes": 1, "numFiles": 1, "numMetadata": 1, "numProtocol": 1}
    (log / checksum_file(0)).write_text(json.dumps({**counts, **wrong}))
    facts = read_facts(str(tmp_path), {}, Wanted())
    assert (facts.metadata.name, facts.protocol.to_json()) == ("events", protocol()["protocol"])


@pytest.mark.parametrize("is_enabled", [False, True])
def test_wrong_checksum_changes_no_time_in_the_history_of_a_damaged_log(tmp_path: Path, is_enabled: bool) -> None:
    def created(*, enabled: bool) -> Any:
        return metadata(configuration={"delta.enableInCommitTimestamps": json.dumps(enabled)})

    info = commit_info(inCommitTimestamp=mtime_of(0) + 7 if is_enabled else None)
    log = write_log(tmp_path, {0: [info, timed_protocol(), created(enabled=is_enabled)], 1: []})
    (log / commit_file(1)).write_text('{"commitInfo":')
    counts = {"tableSizeBytes": 0, "numFiles": 0, "numMetadata": 1, "numProtocol": 1}
    wrong = {**timed_protocol(), "metadata": created(enabled=not is_enabled)["metaData"]}
    (log / checksum_file(0)).write_text(json.dumps({**counts, **wrong}))
    lost, first = read_history(TableLog.for_path(tmp_path), 2).entries
    assert isinstance(lost, LostCommits)
    assert isinstance(first, DeltaHistory)
    assert (lost.version, first.version, first.timestamp) == (1, 0, mtime_of(0) + (7 if is_enabled else 0))


def test_damaged_first_commit_is_one_lost_version(tmp_path: Path) -> None:
    log = write_log(tmp_path, {0: [protocol(), metadata()], 1: [add("a")]})
    (log / commit_file(0)).write_text("{")
    _, lost = read_history(TableLog.for_path(tmp_path), 3).entries
    assert isinstance(lost, LostCommits)
    assert (lost.version, lost.last) == (0, 0)
