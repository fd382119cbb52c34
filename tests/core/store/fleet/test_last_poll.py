"""The document with the result of the last poll of a table."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from deltasnap_core.log.condition.problem import Problem, Where
from deltasnap_core.log.condition.problem_kinds import ProblemKind
from deltasnap_core.ranges import VersionRanges
from deltasnap_core.store.fleet.last_poll import LastPoll
from deltasnap_core.store.fleet.timeline import VersionPoint
from deltasnap_core.store.format.layout import ManifestName

FAULT = Problem.of(
    ProblemKind.CORRUPT_COMMIT, Where.of("s3://lake/t/3.json", 3, line=7), VersionRanges.of([3, 4]), reason="no JSON"
)
POLL = LastPoll(
    polled_at_ms=1,
    examined_at_ms=2,
    examined_checkpoint="c5",
    latest_version=7,
    last_commit_ms=5,
    checked_version=6,
    checked_inputs="a1",
    unchecked_since_ms=3,
    problems=(
        Problem.of_check(check="small_files", severity="warning", text="Too many.", advice="Run `OPTIMIZE`."),
        FAULT,
    ),
    stale_after_ms=9,
    small_file_bytes=10,
    facts_version=6,
    vacuum_bytes=3,
    time_travel_bytes=4,
    counted_files={"version": 5},
    owners=("team:web",),
    path="s3://lake/events",
    points={ManifestName(generation="000001-id", version=6): VersionPoint(4, 44)},
)


NAMES = (
    *("text", "advice", "table", "reason", "action", "error", "needs", "change", "fields", "column", "columns"),
    *("age", "patience"),
)
POLL_JSON: dict[str, Any] = {
    "format": 1,
    "polledAt": 1,
    "examinedAt": 2,
    "examinedCheckpoint": "c5",
    "latestVersion": 7,
    "lastCommit": 5,
    "checkedVersion": 6,
    "checkedInputs": "a1",
    "uncheckedSince": 3,
    "problems": [
        {
            "check": "small_files",
            "severity": "warning",
            "text": "Too many.",
            "advice": "Run `OPTIMIZE`.",
            "kind": "failed_check",
            "name": "small_files",
            "facts": {"severity": "warning", "text": "Too many.", "advice": "Run `OPTIMIZE`."},
        },
        {
            "check": "log",
            "severity": "error",
            "text": FAULT.text,
            "advice": FAULT.advice,
            "kind": "corrupt_commit",
            "file": "s3://lake/t/3.json",
            "line": 7,
            "at": [[3, 3]],
            "versions": [[3, 4]],
            "facts": {"reason": "no JSON"},
        },
    ],
    "staleAfter": 9,
    "smallFileBytes": 10,
    "factsVersion": 6,
    "vacuumBytes": 3,
    "timeTravelBytes": 4,
    "countedFiles": {"version": 5},
    "owners": ["team:web"],
    "path": "s3://lake/events",
    "points": {"000001-id": {"6": [4, 44]}},
}
EMPTY_JSON = {
    "format": 1,
    "polledAt": 1,
    "problems": [],
    "smallFileBytes": 16 << 20,
    "owners": [],
    "path": None,
    "points": {},
}


@pytest.mark.parametrize(
    ("poll", "document"), [(POLL, POLL_JSON), (LastPoll(polled_at_ms=1), EMPTY_JSON)], ids=["full", "empty"]
)
def test_poll_is_one_document_that_is_read_back(poll: LastPoll, document: dict[str, Any]) -> None:
    """Stores of this release have these documents."""
    assert json.loads(poll.to_bytes()) == document
    assert LastPoll.from_bytes(poll.to_bytes()) == poll


def test_bytes_beyond_64_bits_are_unknown() -> None:
    assert LastPoll.from_bytes(replace(POLL, vacuum_bytes=2**63).to_bytes()) == replace(POLL, vacuum_bytes=None)
    assert LastPoll.from_bytes(replace(POLL, time_travel_bytes=2**63).to_bytes()).time_travel_bytes is None
    assert LastPoll.from_bytes(replace(POLL, vacuum_bytes=2**63 - 1).to_bytes()).vacuum_bytes == 2**63 - 1


def test_document_of_an_earlier_release_is_read() -> None:
    values = json.loads(POLL.to_bytes())
    del values["uncheckedSince"], values["checkedInputs"]
    values["staleRule"] = {"patience": values.pop("staleAfter"), "check": "fresh_table"}
    earlier = replace(POLL, unchecked_since_ms=None, checked_inputs=None)
    assert LastPoll.from_bytes(json.dumps(values).encode()) == earlier


@pytest.mark.parametrize("kind", ProblemKind)
@pytest.mark.parametrize("versions", [(), (3, 4, 7)])
def test_problem_of_each_kind_is_read_back_with_its_key_and_texts(kind: ProblemKind, versions: tuple[int, ...]) -> None:
    facts: dict[str, Any] = dict.fromkeys(NAMES, "x")
    where = Where(file="s3://lake/t/3.json", line=7, name="r1", versions=VersionRanges.of([3]))
    problem = Problem.of(kind, where, VersionRanges.of(versions), **{**facts, "latest": 9, "found": 3, "stored": 2})
    (found,) = LastPoll.from_bytes(replace(POLL, problems=(problem,)).to_bytes()).problems
    assert found == problem
    shown = ("key", "severity", "check", "text", "advice", "reason")
    assert [getattr(found, name) for name in shown] == [getattr(problem, name) for name in shown]


def read_back(*problems: dict[str, Any]) -> tuple[Problem, ...]:
    return LastPoll.from_bytes(json.dumps({**POLL_JSON, "problems": problems}).encode()).problems


def test_problem_that_an_earlier_release_recorded_keeps_its_texts() -> None:
    values = {"check": "log", "severity": "warning", "text": "It is so.", "advice": "Do it."}
    known, unknown, of_check = read_back(
        {**values, "kind": "empty_commit"}, {**values, "kind": "of_a_later_release"}, {**values, "check": "small_files"}
    )
    assert known.kind is ProblemKind.EMPTY_COMMIT
    assert unknown.kind is of_check.kind is ProblemKind.FAILED_CHECK
    shown = ("warning", "It is so.", "Do it.")
    assert {(each.severity, each.text, each.advice) for each in (known, unknown, of_check)} == {shown}
    assert [each.check for each in (known, unknown, of_check)] == ["log", "log", "small_files"]


@pytest.mark.parametrize("versions", [7, [1], [["a", 1]], [[1, 2, 3]]])
def test_versions_that_are_no_pairs_are_rejected(versions: object) -> None:
    with pytest.raises(ValueError, match="versions"):
        read_back({"check": "log", "severity": "warning", "text": "", "versions": versions})


def test_document_has_no_credentials_and_no_long_texts() -> None:
    problem = Problem.of_check(check="c", severity="error", text="at s3://key:secret@lake/t " + "x" * 9999)
    poll = LastPoll(polled_at_ms=1, path="s3://key:secret@lake/t", problems=(problem,))
    assert b"secret" not in poll.to_bytes()
    (found,) = LastPoll.from_bytes(poll.to_bytes()).problems
    assert len(found.text) == 2000
    assert replace(poll, problems=(found,)).to_bytes() == poll.to_bytes()


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"format": 2}, "expected format 1"),
        ({"polledAt": "now"}, "polledAt"),
        ({"problems": [{"check": "c", "severity": "fatal", "text": "", "advice": ""}]}, "problem.severity"),
        ({"owners": [1]}, "owners"),
        ({"points": {"000001-id": {"x": [1, 2]}}}, "points"),
        ({"points": {"000001-id": {"1": [1]}}}, "points"),
        ({"points": {"000001-id": {"1": [1, "2"]}}}, "points: expected a time and a size"),
        ({"points": {"000001-id": {"1": [None, 2]}}}, "points: expected a time and a size"),
        ({"points": {"000001-id": 7}}, "points"),
        ({"points": [1]}, "points"),
        ({"staleAfter": "x"}, "^poll.staleAfter: expected a 64-bit integer"),
    ],
)
def test_damaged_document_is_rejected_with_a_reason(changed: dict[str, object], reason: str) -> None:
    values = {**json.loads(POLL.to_bytes()), **changed}
    with pytest.raises(ValueError, match=reason):
        LastPoll.from_bytes(json.dumps(values).encode())


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"null", b"\xff", b"[" * 100_000], ids=repr)
def test_bytes_that_are_not_a_document_are_rejected(content: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        LastPoll.from_bytes(content)


def test_path_is_elsewhere_unless_it_is_another_spelling(tmp_path: Path) -> None:
    (tmp_path / "table").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "table")
    local = replace(POLL, path=str(tmp_path / "table"))
    assert not any(local.is_elsewhere(f"{path}") for path in (f"file://{tmp_path}/table/", tmp_path / "link"))
    assert local.is_elsewhere(str(tmp_path / "other"))
    remote = replace(POLL, path="s3://lake/events")
    assert [remote.is_elsewhere(path) for path in ("s3a://lake/events/", "s3://lake/clicks")] == [False, True]
    assert not replace(POLL, path=None).is_elsewhere("s3://lake/events")
