"""The output of `inspect` for unusual tables, before Spark would start, and the condition of a table as lines."""

from __future__ import annotations

import io
import json
import logging
import os
import re
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from deltasnap_assets.command.views import condition_view
from deltasnap_assets.command.views.condition_view import (
    FaultyTableError,
    condition_lines,
    explaining,
    explains,
    fault_of_commit,
    print_condition,
    without_listed_warnings,
)
from deltasnap_assets.command.views.counting import count
from deltasnap_assets.command.views.history import LostCommits, read_history
from deltasnap_assets.command.views.inspect_view import inspect
from deltasnap_assets.command.views.inspection import Wanted, read_facts, show_facts
from deltasnap_assets.quantities import bytes_text
from deltasnap_assets.spark.java import JavaError
from deltasnap_core import DeltaHistory, ProblemKind, TableCondition, TableLog, VersionGapError, VersionNotFoundError
from deltasnap_core.errors import TimestampNotFoundError
from deltasnap_core.protocol.log_files.file_names import checksum_file, commit_file
from tests.assets.checks.known import NO_TABLE, condition, fault, versions
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
    assert bool(re.search(r"\.\.\. +and 1 more", shown)) == (number == 201)


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


LOST = fault(ProblemKind.MISSING_COMMIT, at=versions(3, 4), versions=versions(3, 5))
EMPTY = fault(ProblemKind.EMPTY_COMMIT)
BROKEN = condition(LOST, EMPTY, loadable=versions(0, 2))


def test_each_fault_is_a_line_and_errors_name_the_loadable_versions(capsys: pytest.CaptureFixture[str]) -> None:
    error, warning = "Problem missing_commit. Repair missing_commit.", "Problem empty_commit. Repair empty_commit."
    assert list(condition_lines(BROKEN)) == [("error", f"{error} Loadable: versions 0 to 2."), (EMPTY.mark, warning)]
    assert FaultyTableError(BROKEN).lines == (f"{error} Loadable: versions 0 to 2.",)
    assert str(FaultyTableError(BROKEN)) == f"{error} Loadable: versions 0 to 2."
    assert list(condition_lines(NO_TABLE)) == [("error", "Problem no_table. Repair no_table.")]
    one = condition(LOST, loadable=versions(2, 2))
    assert next(condition_lines(one))[1].endswith(" Loadable: version 2.")
    print_condition(BROKEN)
    assert capsys.readouterr().err.splitlines() == [f"error: {error} Loadable: versions 0 to 2.", f"warning: {warning}"]


@pytest.mark.parametrize(
    ("found", "read", "expected"),
    [
        (BROKEN, (), True),
        (BROKEN, (2,), False),
        (BROKEN, (2, 3), True),
        (condition(), (), False),
        (condition(), (3,), False),
        (NO_TABLE, (), True),
        (NO_TABLE, (3,), True),
        (condition(fault(ProblemKind.ACCESS_DENIED), latest=None), (), True),
        (condition(fault(ProblemKind.STORAGE_FAILED)), (1,), True),
        (condition(EMPTY), (), False),
    ],
)
def test_fault_explains_why_versions_fail(found: TableCondition, read: tuple[int, ...], expected: bool) -> None:
    assert explains(found, *read) == expected


READ = fault(ProblemKind.CORRUPT_COMMIT, at=versions(3, 3), versions=versions(3, 5))


def test_commit_that_is_missing_or_unreadable_has_a_fault() -> None:
    assert [fault_of_commit(BROKEN, version) for version in (2, 3, 4, 5)] == [None, LOST, LOST, None]
    read = condition(EMPTY, READ, loadable=versions(0, 2))
    assert [fault_of_commit(read, version) for version in (2, 3, 4)] == [None, READ, None]
    assert fault_of_commit(NO_TABLE, 3) is None
    assert fault_of_commit(condition(EMPTY), 3) is None


def raised(error: Exception, *read: int) -> None:
    with explaining("/t", {"a": "1"}, *read):
        raise error


def test_failure_that_the_log_explains_names_its_faults(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[object] = []

    def condition_of(*given: object) -> TableCondition:
        asked.append(given)
        return BROKEN

    monkeypatch.setattr(condition_view, "condition_of", condition_of)
    gap = VersionGapError(path="/t", version=5, missing=versions(3, 4))
    with pytest.raises(FaultyTableError) as found:
        raised(gap)
    assert (found.value.condition, found.value.__cause__) == (BROKEN, gap)
    with pytest.raises(VersionGapError):
        raised(gap, 2)
    absent = VersionNotFoundError(path="/t", version=4, earliest=0, latest=5)
    with pytest.raises(FaultyTableError):
        raised(absent, 0, 2)  # the version that was not found is lost
    with pytest.raises(JavaError):
        raised(JavaError("No Java found."))
    assert asked == [("/t", {"a": "1"}), ("/t", {"a": "1"}, 2), ("/t", {"a": "1"}, 0, 2)]


def test_warnings_that_a_condition_lists_are_suppressed_while_it_is_printed(caplog: pytest.LogCaptureFixture) -> None:
    core, handler = logging.getLogger("deltasnap_core"), caplog.handler
    core.addHandler(handler)
    core.propagate, is_propagated = False, core.propagate
    try:
        with without_listed_warnings():
            logging.getLogger("deltasnap_core.log.loaded_log").warning("listed")
            logging.getLogger("deltasnap_core.log.table_log").warning("other")
        logging.getLogger("deltasnap_core.log.loaded_log").warning("later")
    finally:
        core.removeHandler(handler)
        core.propagate = is_propagated
    assert caplog.messages == ["other", "later"]
