"""The document with the last poll of a table, and the condition that follows from it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from deltasnap_core import Problem, ProblemKind, VersionRanges, Where
from deltasnap_core.store.fleet.table_level import TableStatus, is_new, table_status
from deltasnap_core.store.fleet.timeline import VersionPoint
from deltasnap_core.store.format.layout import ManifestName
from deltasnap_core.support import TEMPLATES, LastPoll, TableLevel

NOW = 1_700_000_000_000
MINUTE = 60_000
HOUR = 60 * MINUTE
DAY = 24 * HOUR
WRITER = TEMPLATES[ProblemKind.STALE].advice


def problem(severity: Any, text: str, advice: str = "") -> Problem:
    return Problem.of_check(check=text[:3], severity=severity, text=text, advice=advice)


def status(last_commit_ms: int | None = None, **values: Any) -> TableStatus:
    return table_status(LastPoll(**{"polled_at_ms": NOW, "checked_version": 3, **values}), last_commit_ms, NOW)


def shown(found: TableStatus) -> tuple[TableLevel, str, str, str]:
    """The columns of the fleet."""
    return found.level, found.reason, ", ".join(found.checks), found.advice


def test_each_text_and_each_advice_of_problems_is_given_once() -> None:
    found = status(
        problems=(
            problem("warning", "One.", "Do it."),
            problem("warning", "Two."),
            problem("warning", "Three.", "Do it."),
            problem("warning", "Two.", "Do that."),
        )
    )
    assert shown(found) == (TableLevel.WARNED, "One. Two. Three.", "One, Two, Thr", "Do it. Do that.")


def test_only_errors_are_named_if_there_are_any() -> None:
    found = status(problems=(problem("warning", "Slow."), problem("error", "Lost.", "Restore it.")))
    assert shown(found) == (TableLevel.BROKEN, "Lost.", "Los", "Restore it.")


def test_damage_stays_known_when_the_poll_is_old() -> None:
    found = status(polled_at_ms=NOW - DAY - 1, problems=(problem("error", "Lost."),))
    assert found.level is TableLevel.BROKEN
    assert found.reason.startswith("Lost. deltasnap last read the log of this table ")


@pytest.mark.parametrize(
    ("age_hours", "patience_hours", "expected"),
    [
        (0.02, 0.01, "72 seconds old, at most 36 seconds"),
        (0.75, 0.5, "45 minutes old, at most 30 minutes"),
        (2, 1, "2 hours old, at most 60 minutes"),
        (168, 167, "7 days old, at most 167 hours"),
        (400, 168, "16 days old, at most 7"),
    ],
)
def test_ages_of_a_stale_table_have_a_unit_that_shows_the_difference_to_the_limit(
    age_hours: float, patience_hours: float, expected: str
) -> None:
    patience = int(patience_hours * HOUR)
    found = status(NOW - int(age_hours * HOUR), stale_after_ms=patience)
    assert found.level is TableLevel.STALE
    assert expected in found.reason


LEVELS: dict[str, tuple[dict[str, Any], int | None, TableLevel]] = {
    "healthy": ({}, None, TableLevel.HEALTHY),
    "not checked": ({"checked_version": None}, None, TableLevel.UNKNOWN),
    "just read": ({"polled_at_ms": NOW - DAY}, None, TableLevel.HEALTHY),
    "read too long ago": ({"polled_at_ms": NOW - DAY - 1}, None, TableLevel.UNKNOWN),
    "another clock": ({"polled_at_ms": NOW + 5 * MINUTE}, None, TableLevel.HEALTHY),
    "a wrong clock": ({"polled_at_ms": NOW + 5 * MINUTE + 1}, None, TableLevel.UNKNOWN),
    "just examined": ({"examined_at_ms": NOW - 2 * DAY}, None, TableLevel.HEALTHY),
    "examined too long ago": ({"examined_at_ms": NOW - 2 * DAY - 1}, None, TableLevel.UNKNOWN),
    "just waiting": ({"unchecked_since_ms": NOW - DAY}, None, TableLevel.HEALTHY),
    "waiting too long": ({"unchecked_since_ms": NOW - DAY - 1}, None, TableLevel.UNKNOWN),
    "fresh": ({"stale_after_ms": HOUR}, NOW - HOUR, TableLevel.HEALTHY),
    "stale": ({"stale_after_ms": HOUR}, NOW - HOUR - 1, TableLevel.STALE),
    "of an unknown age": ({"stale_after_ms": HOUR}, None, TableLevel.HEALTHY),
    "without a rule": ({}, 0, TableLevel.HEALTHY),
    "a little in the future": ({"stale_after_ms": HOUR}, NOW + 5 * MINUTE, TableLevel.HEALTHY),
    "in the future": ({"stale_after_ms": HOUR}, NOW + 5 * MINUTE + 1, TableLevel.WARNED),
}


@pytest.mark.parametrize("case", LEVELS)
def test_level_follows_from_the_ages_of_the_last_poll(case: str) -> None:
    values, last_commit_ms, level = LEVELS[case]
    assert status(last_commit_ms, **values).level is level


UNKNOWN, START = TableLevel.UNKNOWN, "Refresh the table, or start its sensor."
OLD = "The last commit is 2 hours old, at most 60 minutes expected."
UNCHECKED = "No run has checked this table for 25 hours, and it has new versions."
WARNING = problem("warning", "Slow.", "Look.")
STATUSES: list[tuple[dict[str, Any], int, tuple[TableLevel, str, str, str]]] = [
    (
        {"polled_at_ms": NOW - 25 * HOUR, "problems": (WARNING,)},
        NOW,
        (UNKNOWN, "deltasnap last read the log of this table 25 hours ago.", "", START),
    ),
    (
        {"polled_at_ms": NOW + 2 * HOUR},
        NOW,
        (UNKNOWN, "The time of the last poll of this table is 2 hours in the future: a clock was wrong.", "", START),
    ),
    (
        {"examined_at_ms": NOW - 49 * HOUR},
        NOW,
        (UNKNOWN, "deltasnap last checked the log of this table for damage 49 hours ago.", "", START),
    ),
    ({"checked_version": None}, NOW, (UNKNOWN, "No run has checked this table yet.", "", "Refresh the table.")),
    ({"unchecked_since_ms": NOW - 25 * HOUR}, NOW, (UNKNOWN, UNCHECKED, "", "Refresh the table.")),
    (
        {"unchecked_since_ms": NOW - 25 * HOUR, "problems": (WARNING,)},
        NOW,
        (UNKNOWN, f"{UNCHECKED} Slow.", "Slo", "Refresh the table. Look."),
    ),
    ({"stale_after_ms": HOUR}, NOW - 2 * HOUR, (TableLevel.STALE, OLD, "fresh_table", WRITER)),
    (
        {"stale_after_ms": HOUR, "problems": (WARNING,)},
        NOW - 2 * HOUR,
        (TableLevel.WARNED, f"Slow. {OLD}", "Slo, fresh_table", f"Look. {WRITER}"),
    ),
    (
        {"stale_after_ms": HOUR},
        NOW + HOUR,
        (
            TableLevel.WARNED,
            "The time of the last commit is 60 minutes in the future.",
            "fresh_table",
            "Correct the clock of the writer.",
        ),
    ),
    ({"stale_after_ms": HOUR}, NOW, (TableLevel.HEALTHY, "", "", "")),
]


@pytest.mark.parametrize(("values", "last_commit_ms", "expected"), STATUSES)
def test_each_status_has_its_reason_check_and_advice(
    values: dict[str, Any], last_commit_ms: int, expected: tuple[TableLevel, str, str, str]
) -> None:
    assert shown(status(last_commit_ms, **values)) == expected


def test_table_that_was_never_polled_is_unknown() -> None:
    found = table_status(None, NOW, NOW)
    assert shown(found) == (UNKNOWN, "deltasnap has not read the log of this table yet.", "", START)


def test_table_is_new_until_it_is_checked_or_unchecked_for_a_day() -> None:
    def new(**values: Any) -> bool:
        return is_new(LastPoll(**{"polled_at_ms": NOW, **values}), NOW)

    assert is_new(None, NOW)
    assert new()
    assert not new(checked_version=0)
    assert not new(problems=(problem("warning", "Slow."),))
    assert [new(polled_at_ms=NOW - age) for age in (DAY, DAY + 1)] == [True, False]
    assert [new(unchecked_since_ms=NOW - age) for age in (DAY, DAY + 1)] == [True, False]


def test_levels_rank_from_the_worst_to_healthy() -> None:
    assert [TableLevel(name).rank for name in ("broken", "unknown", "warned", "stale", "healthy")] == [0, 1, 2, 3, 4]


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
    values = {"check": "log", "severity": "error", "text": "It is so.", "advice": "Do it."}
    known, unknown, of_check = read_back(
        {**values, "kind": "empty_commit"}, {**values, "kind": "of_a_later_release"}, {**values, "check": "small_files"}
    )
    assert known.kind is ProblemKind.EMPTY_COMMIT
    assert unknown.kind is of_check.kind is ProblemKind.FAILED_CHECK
    shown = ("error", "It is so.", "Do it.")
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
