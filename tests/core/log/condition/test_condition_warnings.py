"""The faults of a log that keep no version from loading, and times that commits must have."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from deltasnap_core import ProblemKind, TableCondition, TableLog, VersionRanges
from deltasnap_core.log.commits import commit_batch, commit_reader
from deltasnap_core.protocol.log_files.file_names import checkpoint_file, checksum_file, commit_file
from deltasnap_core.support import CommitFindings, SoundVersion
from tests.builders import (
    add,
    commit_info,
    content,
    metadata,
    mtime_of,
    multipart_checkpoint_files,
    protocol,
    remove,
    timed_protocol,
    write_log,
)
from tests.checkpoint_files import CheckpointStyle, put_parsed_statistics, write_checkpoint
from tests.conftest import NOW_MS
from tests.core.log.condition.table_condition_builders import FIRST, condition, make_log
from tests.core.scan.catalog_tables import write_catalog_managed
from tests.without_spark import log_without_spark


def warned(found: TableCondition) -> list[ProblemKind]:
    """Return the kinds of the faults, each of which is a warning."""
    assert {fault.mark for fault in found.faults} <= {"warning"}
    return [fault.kind for fault in found.faults]


def test_commits_without_a_required_in_commit_timestamp_cannot_be_loaded(tmp_path: Path) -> None:
    enabled = metadata(configuration={"delta.enableInCommitTimestamps": "true"})
    commits = {0: [commit_info(inCommitTimestamp=1), timed_protocol(), enabled], 1: [commit_info()], 2: [add("a")]}
    write_log(tmp_path / "t", {**commits, 3: [commit_info(inCommitTimestamp=9), add("b")]})
    found = condition(tmp_path / "t", first=0)
    (fault,) = found.faults
    assert (fault.kind, [*fault.versions], [*found.loadable]) == (ProblemKind.CORRUPT_COMMIT, [1, 2], [0, 3])
    assert "inCommitTimestamp" in fault.text


def test_property_for_commit_timestamps_that_the_protocol_does_not_support_is_ignored(tmp_path: Path) -> None:
    enabled = metadata(configuration={"delta.enableInCommitTimestamps": "true"})
    write_log(tmp_path / "t", {0: [protocol(), enabled, commit_info()], 1: [commit_info(), add("a")]})
    found, log = condition(tmp_path / "t", first=0), TableLog.for_path(tmp_path / "t")
    assert (found.faults, [*found.loadable]) == ((), [0, 1])
    assert [log.at(version).timestamp for version in (0, 1)] == [mtime_of(0), mtime_of(1)]
    assert log.history.commit_timestamps() == {0: mtime_of(0), 1: mtime_of(1)}
    assert log.at(timestamp=mtime_of(0)).version == 0


def test_condition_warns_of_in_commit_timestamps_that_decrease(tmp_path: Path) -> None:
    enabled = metadata(configuration={"delta.enableInCommitTimestamps": "true"})
    times = {0: 10, 1: 30, 2: 20, 3: 20, 4: 40, 5: 5}
    commits = {v: [commit_info(inCommitTimestamp=time), add(str(v))] for v, time in times.items()}
    write_log(tmp_path / "t", {**commits, 0: [*commits[0], timed_protocol(), enabled]})
    found = condition(tmp_path / "t", first=0)
    (fault,) = found.faults
    assert (fault.kind, fault.mark, [*found.loadable]) == (ProblemKind.DECREASING_TIMESTAMP, "warning", [*times])
    assert "versions 2, 5" in fault.text


FAR_MS = 4_000_000_000_000  # the year 2096


@pytest.mark.parametrize("is_own", [True, False], ids=["in commit", "of the file"])
def test_condition_warns_of_timestamps_in_the_future(tmp_path: Path, is_own: bool) -> None:
    properties = {"delta.enableInCommitTimestamps": "true"} if is_own else {}
    commits = {v: [commit_info(inCommitTimestamp=FAR_MS if v == 2 else v), add(str(v))] for v in range(3)}
    log = write_log(tmp_path / "t", {**commits, 0: [*commits[0], timed_protocol(), metadata(configuration=properties)]})
    os.utime(log / commit_file(1), (FAR_MS / 1000, FAR_MS / 1000))
    found = condition(tmp_path / "t", first=0)
    (fault,) = found.faults
    assert (fault.kind, fault.mark, [*found.loadable]) == (ProblemKind.FUTURE_TIMESTAMP, "warning", [0, 1, 2])
    assert f"The timestamp of version {2 if is_own else 1} in the log" in fault.text


@pytest.mark.parametrize(
    ("is_own", "kind", "text"),
    [
        (True, ProblemKind.DECREASING_TIMESTAMP, "version 2 in the log"),
        (False, ProblemKind.FUTURE_TIMESTAMP, "version 3 in the log"),
    ],
    ids=["in commit", "of the file"],
)
def test_times_of_new_commits_are_compared_with_the_newest_sound_version(
    tmp_path: Path, is_own: bool, kind: ProblemKind, text: str
) -> None:
    properties = metadata(configuration={"delta.enableInCommitTimestamps": "true"} if is_own else {})
    times = {0: 10, 1: 30, 2: 20, 3: 40}
    commits = {v: [commit_info(inCommitTimestamp=time), add(str(v))] for v, time in times.items()}
    log = write_log(tmp_path / "t", {**commits, 0: [*commits[0], timed_protocol(), properties]})
    os.utime(log / commit_file(0), (FAR_MS / 1000, FAR_MS / 1000))
    os.utime(log / commit_file(3), (FAR_MS / 1000, FAR_MS / 1000))
    state = log_without_spark(TableLog.for_path(tmp_path / "t")).get_snapshot_at(1)
    stored = SoundVersion(version=1, protocol=state.protocol, metadata=state.metadata, timestamp=30)
    found = condition(
        tmp_path / "t", first=2, known=CommitFindings(sound=VersionRanges(((0, 1),)), newest_sound=stored)
    )
    (fault,) = found.faults
    assert (fault.kind, text in fault.text, [*found.commits_read]) == (kind, True, [2, 3])


@pytest.mark.parametrize(("ahead_ms", "faults"), [(86_400_000, 0), (86_400_001, 1)], ids=["a day", "more"])
def test_timestamp_up_to_a_day_ahead_is_no_fault(tmp_path: Path, ahead_ms: int, faults: int) -> None:
    enabled = metadata(configuration={"delta.enableInCommitTimestamps": "true"})
    write_log(tmp_path / "t", {0: [commit_info(inCommitTimestamp=NOW_MS + ahead_ms), timed_protocol(), enabled]})
    assert len(TableLog.for_path(tmp_path / "t", clock=lambda: NOW_MS).condition().faults) == faults


def test_timestamp_of_a_clock_that_is_hours_ahead_is_no_fault(tmp_path: Path) -> None:
    log, later = write_log(tmp_path / "t", {0: [*FIRST, add("a")]}), time.time() + 23 * 3600
    os.utime(log / commit_file(0), (later, later))
    assert condition(tmp_path / "t").faults == ()


@pytest.mark.parametrize("stated", [{"Version": "0"}, {"Timestamp": "10"}, {"Version": "0", "Timestamp": "x"}])
def test_condition_warns_of_properties_that_partly_state_since_when_timestamps_are_enabled(
    tmp_path: Path, stated: dict[str, str]
) -> None:
    names = {f"delta.inCommitTimestampEnablement{key}": value for key, value in stated.items()}
    enabled = metadata(configuration={"delta.enableInCommitTimestamps": "true", **names})
    write_log(tmp_path / "t", {0: [commit_info(inCommitTimestamp=10), timed_protocol(), enabled]})
    assert warned(condition(tmp_path / "t")) == [ProblemKind.INCOMPLETE_ENABLEMENT]


VECTOR = {"storageType": "u", "pathOrInlineDv": "abc", "sizeInBytes": 1, "cardinality": -4}


NEGATIVE: dict[str, dict[str, Any]] = {
    "size": {"size": -1},
    "number of records": {"stats": '{"minValues":{},"numRecords" : -1}'},
    "number of deleted rows": {"deletionVector": VECTOR},
    "number of live rows": {"stats": '{"numRecords":1}', "deletionVector": {**VECTOR, "cardinality": 2}},
}


@pytest.mark.parametrize("fields", NEGATIVE.values(), ids=NEGATIVE)
@pytest.mark.parametrize("is_large", [False, True], ids=["in memory", "too large for memory"])
def test_condition_warns_of_negative_numbers_in_commits(
    tmp_path: Path, fields: dict[str, Any], is_large: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if is_large:
        monkeypatch.setattr(commit_batch, "LARGE_COMMIT_BYTES", 0)
        monkeypatch.setattr(commit_reader, "MEASURED_BYTES", 0)
    write_log(tmp_path / "t", {0: [*FIRST, add("a")], 1: [add("b", **fields)], 2: [add("c", size=0)]})
    found = condition(tmp_path / "t")
    assert (warned(found), [*found.loadable]) == ([ProblemKind.NEGATIVE_NUMBER], [0, 1, 2])
    assert "Files of version 1 in the log" in found.text


@pytest.mark.parametrize("style", ["classic", "multipart", "v2-json", "v2-parquet-sidecars"])
@pytest.mark.parametrize("fields", NEGATIVE.values(), ids=NEGATIVE)
def test_negative_numbers_in_a_checkpoint_warn(tmp_path: Path, style: CheckpointStyle, fields: dict[str, Any]) -> None:
    log = write_log(tmp_path / "t", {2: [add("b")]})
    write_checkpoint(log, 1, style, [*FIRST, add("a", **fields), add("c"), remove("d")])
    assert warned(condition(tmp_path / "t")) == [ProblemKind.NEGATIVE_NUMBER]


def test_condition_warns_of_a_negative_number_of_records_in_the_struct_of_a_checkpoint(tmp_path: Path) -> None:
    log = write_log(tmp_path / "t", {2: [add("b")]})
    (file,) = write_checkpoint(log, 1, "classic", [*FIRST, add("a")])
    numbers = pa.array([None, None, {"numRecords": -1}], pa.struct([("numRecords", pa.int64())]))
    put_parsed_statistics(file, numbers, keep_json=True)
    assert warned(condition(tmp_path / "t")) == [ProblemKind.NEGATIVE_NUMBER]


DOMAIN = {"domain": "d", "configuration": "", "removed": False}


RIGHT = {
    "tableSizeBytes": 1,
    "numFiles": 1,
    "numMetadata": 1,
    "numProtocol": 1,
    "inCommitTimestamp": 5,
    "domainMetadata": [],
    "setTransactions": [],
    **protocol(),
    "metadata": metadata()["metaData"],
}


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        ({}, ""),
        ({"setTransactions": None}, ""),
        ({"protocol": protocol(2, 5)["protocol"]}, "protocol"),
        ({"metadata": metadata(table_id="other")["metaData"]}, "metadata"),
        ({"setTransactions": [{"appId": "a", "version": 1}]}, "set_transactions"),
        ({"numProtocol": 2, "domainMetadata": [DOMAIN]}, "num_protocol, domain_metadata"),
    ],
)
def test_condition_warns_of_a_checksum_unlike_the_log(tmp_path: Path, wrong: dict[str, Any], named: str) -> None:
    log = write_log(tmp_path / "t", {0: [*FIRST, add("a")], 1: [add("b")]})
    (log / checksum_file(1)).write_text(json.dumps({**RIGHT, **wrong}))
    (log / checksum_file(0)).write_text(json.dumps({**RIGHT, **protocol(2, 5)}))
    expected = f"The log differs from the checksum of version 1: {named}." if named else ""
    assert condition(tmp_path / "t").text == expected
    newest = TableLog.for_path(tmp_path / "t").latest()
    stored = SoundVersion(version=1, protocol=newest.protocol, metadata=newest.metadata, timestamp=5)
    # Not every action of stored versions is known.
    known = CommitFindings(sound=VersionRanges.of(range(2)), newest_sound=stored)
    assert condition(tmp_path / "t", known=known).text == ""


def test_condition_of_an_invalid_hint_warns(tmp_path: Path) -> None:
    log = make_log(tmp_path / "t", 6, checkpoint=4)
    (log / "_last_checkpoint").write_text('{"version":6,"size":3}')
    (found,) = condition(tmp_path / "t").faults
    assert (found.kind, found.mark) == (ProblemKind.BROKEN_HINT, "warning")
    assert "version 6, which is not in the log" in found.text
    (log / "_last_checkpoint").write_text("{")
    (found,) = condition(tmp_path / "t").faults
    assert (found.kind, found.mark, found.where.file) == (ProblemKind.BROKEN_HINT, "warning", "_last_checkpoint")


def test_condition_warns_of_a_hint_at_one_file_where_the_checkpoint_has_parts(tmp_path: Path) -> None:
    log = make_log(tmp_path / "t", 6, checkpoint=4)
    whole = log / checkpoint_file(4)
    for name in multipart_checkpoint_files(4, 2):
        (log / name).write_bytes(whole.read_bytes())
    whole.unlink()
    texts = {}
    for parts in (None, 1, 2, 3):
        (log / "_last_checkpoint").write_text(json.dumps({"version": 4, "size": 3, "parts": parts}))
        faults = condition(tmp_path / "t").faults
        texts[parts] = [fault.reason for fault in faults if fault.kind is ProblemKind.BROKEN_HINT]
    reason = "it names the checkpoint of version 4 {}, which is not in the log"
    in_one, in_three = [reason.format("in one file")], [reason.format("in 3 parts")]
    assert texts == {None: in_one, 1: in_one, 2: [], 3: in_three}


@pytest.mark.parametrize(
    ("hint", "reported"),
    [
        ({}, None),
        ({"parts": 1}, None),
        ({"parts": 3}, "in 3 parts"),
        ({"v2Checkpoint": {"path": checkpoint_file(4)}}, None),
        ({"v2Checkpoint": {"path": f"_delta_log/{checkpoint_file(4)}"}}, None),
        ({"v2Checkpoint": {"path": "4.checkpoint.x.json"}}, "in the file 4.checkpoint.x.json"),
    ],
)
def test_hint_at_another_form_of_checkpoint_warns(tmp_path: Path, hint: dict[str, Any], reported: str | None) -> None:
    log = make_log(tmp_path / "t", 6, checkpoint=4)
    (log / "_last_checkpoint").write_text(json.dumps({"version": 4, "size": 3, **hint}))
    found = condition(tmp_path / "t")
    expected = [] if reported is None else [(ProblemKind.BROKEN_HINT, "warning")]
    assert [(fault.kind, fault.mark) for fault in found.faults] == expected
    if reported is not None:
        assert f"it names the checkpoint of version 4 {reported}, which is not in the log" in found.text


def test_condition_of_an_empty_commit_warns_and_every_version_loads(tmp_path: Path) -> None:
    log = make_log(tmp_path / "t", 6, checkpoint=4)
    for version in (2, 6):
        (log / commit_file(version)).write_bytes(b"")
    found = condition(tmp_path / "t")
    assert warned(found) == [ProblemKind.EMPTY_COMMIT]
    assert "commits of versions 2, 6 are empty" in found.text
    assert [*found.loadable] == [0, 1, 2, 3, 4, 5, 6]


@pytest.mark.parametrize("blank", [b"\n", b" \r\n\t \n", b"\n" * 1000])
def test_commit_with_only_blank_lines_is_an_empty_commit(tmp_path: Path, blank: bytes) -> None:
    log = make_log(tmp_path / "t", 3)
    (log / commit_file(2)).write_bytes(blank)
    (log / commit_file(3)).write_bytes(b"{}\n")
    found = condition(tmp_path / "t")
    assert warned(found) == [ProblemKind.EMPTY_COMMIT]
    assert "commit of version 2 is empty" in found.text
    assert [*found.loadable] == [0, 1, 2, 3]


NAMES = {1: "ab", 2: "aa", 3: "a"}
REPEATED: dict[ProblemKind, tuple[dict[int, list[dict[str, Any]]], str]] = {
    ProblemKind.REPEATED_METADATA: ({2: [metadata(), metadata()]}, "metaData action."),
    ProblemKind.REPEATED_PROTOCOL: ({2: [protocol(), protocol()]}, "protocol action."),
    ProblemKind.REPEATED_TRANSACTION: (
        {version: [{"txn": {"appId": name, "version": 1}} for name in names] for version, names in NAMES.items()},
        "txn action with the same appId.",
    ),
    ProblemKind.REPEATED_DOMAIN_METADATA: (
        {
            version: [{"domainMetadata": {"domain": name, "configuration": "{}", "removed": True}} for name in names]
            for version, names in NAMES.items()
        },
        "domainMetadata action with the same domain.",
    ),
}


@pytest.mark.parametrize("kind", REPEATED)
def test_commit_with_two_actions_of_which_one_counts_is_a_warning(kind: ProblemKind, tmp_path: Path) -> None:
    commits, text = REPEATED[kind]
    log = make_log(tmp_path / "t", 3)
    for version, actions in commits.items():
        (log / commit_file(version)).write_bytes(content(actions))
    found = condition(tmp_path / "t", first=0)
    assert (warned(found), [*found.loadable]) == ([kind], [0, 1, 2, 3])
    assert f"The commit of version 2 in the log of {found.table} has more than one {text}" in found.text


VECTOR = {"storageType": "u", "pathOrInlineDv": "ab^-aqEH.-t@S}K{vb[*k^", "sizeInBytes": 1, "cardinality": 1}


@pytest.mark.parametrize(
    ("actions", "fault"),
    [
        ([add("a"), remove("a")], "adds and removes"),
        ([remove("a"), add("a", deletionVector=VECTOR)], None),
        (
            [remove("a", deletionVector=VECTOR), add("b", deletionVector=VECTOR), add("a", deletionVector=VECTOR)],
            "adds and removes",
        ),
        ([remove("a%20b"), add("a b"), remove("c")], "adds and removes"),
        ([remove("/x/a"), add("file:///x/%61")], "adds and removes"),
        ([remove("a"), add("b")], None),
        ([add("b"), add("b")], "adds the same file more than once"),
        ([add("b", deletionVector=VECTOR), add("c"), add("b")], "adds the same file more than once"),
        ([add("a%20b"), add("a b")], "adds the same file more than once"),
        ([add("/x/a"), add("file:///x/%61")], "adds the same file more than once"),
        ([remove("a"), add("a", deletionVector=VECTOR), add("b", deletionVector=VECTOR)], None),
        ([remove("a"), remove("a")], "removes the same file more than once"),
        ([remove("a"), add("b"), remove("a", deletionVector=VECTOR)], "removes the same file more than once"),
        ([remove("a%20b"), remove("a b")], "removes the same file more than once"),
        ([remove("a", deletionVector=VECTOR), remove("b", deletionVector=VECTOR)], None),
    ],
    ids=lambda value: ", ".join(name for each in value for name in each) if isinstance(value, list) else None,
)
def test_condition_warns_of_a_commit_with_two_actions_of_one_file(
    tmp_path: Path, actions: list[dict[str, Any]], fault: str | None
) -> None:
    later = {2: [remove("b"), add("c"), add("x"), remove("y")], 3: [add("x"), remove("y")]}
    write_log(tmp_path / "t", {0: [*FIRST, add("a")], 1: actions, **later})
    found = condition(tmp_path / "t", first=0)
    texts = [each.text for each in found.faults]
    assert ([*found.loadable], found.mark) == ([0, 1, 2, 3], "warning" if fault else "ok")
    assert [("version 1 in the log" in text, str(fault) in text) for text in texts] == [(True, True)] * bool(fault)


@pytest.mark.parametrize("columns", [["id", "id"], ["id", "ID"]])
def test_condition_warns_of_a_partition_column_that_is_named_twice(tmp_path: Path, columns: list[str]) -> None:
    write_log(tmp_path / "t", {0: [protocol(), metadata(partitionColumns=columns)], 1: [add("a")]})
    found = condition(tmp_path / "t", first=0)
    (fault,) = found.faults
    assert (fault.kind, fault.mark, [*found.loadable]) == (ProblemKind.REPEATED_PARTITION_COLUMN, "warning", [0, 1])
    assert "names the partition column 'id' more than once" in fault.text


def test_condition_warns_of_staged_commits_that_a_catalog_has_not_published(tmp_path: Path) -> None:
    tail = write_catalog_managed(tmp_path / "t")
    found = condition(tmp_path / "t")
    (fault,) = found.faults
    assert (fault.kind, fault.mark, [*found.loadable]) == (ProblemKind.UNPUBLISHED_COMMIT, "warning", [0])
    assert "versions 1 to 2 are staged, but not published: deltasnap shows version 0" in fault.text
    for version, commit in enumerate(tail, start=1):
        Path(commit.path.removeprefix("file://")).rename(tmp_path / "t" / "_delta_log" / commit_file(version))
    assert condition(tmp_path / "t").faults == ()


def test_staged_commits_of_a_table_without_a_catalog_are_no_fault(tmp_path: Path) -> None:
    write_catalog_managed(tmp_path / "t", feature="vacuumProtocolCheck")
    assert condition(tmp_path / "t").faults == ()
