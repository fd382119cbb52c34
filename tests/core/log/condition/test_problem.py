"""The sentences of faults, for one version and for several."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from deltasnap_core.errors import StorageError
from deltasnap_core.log.condition.access_faults import storage_fault
from deltasnap_core.log.condition.problem import NOWHERE, Problem, Where
from deltasnap_core.log.condition.problem_kinds import TEMPLATES, ProblemKind
from deltasnap_core.log.condition.table_condition import TableCondition, joined
from deltasnap_core.ranges import NO_VERSIONS, VersionRanges

ONE, TWO = VersionRanges(((3, 3),)), VersionRanges(((3, 4),))


def lost(versions: VersionRanges) -> Problem:
    (found,) = TableCondition(table="/t", latest=2).with_lost_versions(versions).faults
    return found


FAULTS: dict[str, tuple[Callable[[VersionRanges], Problem], str, str]] = {
    "missing": (
        lambda versions: Problem.of(ProblemKind.MISSING_COMMIT, Where(versions=versions), ONE, table="/t"),
        "The commit of version 3 is missing in the log of /t: ",
        "The commits of versions 3 to 4 are missing in the log of /t: ",
    ),
    "empty": (
        lambda versions: Problem.of(ProblemKind.EMPTY_COMMIT, Where(versions=versions), table="/t"),
        "The commit of version 3 is empty (0 bytes, or only blank lines) in the log of /t. ",
        "The commits of versions 3 to 4 are empty (0 bytes, or only blank lines) in the log of /t. ",
    ),
    "ambiguous": (
        lambda versions: Problem.of(ProblemKind.REPEATED_PROTOCOL, Where(versions=versions), table="/t"),
        "The commit of version 3 in the log of /t has more than one protocol action. ",
        "The commits of versions 3 to 4 in the log of /t have more than one protocol action. ",
    ),
    "repeating": (
        lambda versions: Problem.of(ProblemKind.REPEATED_ADD, Where(versions=versions), table="/t"),
        "The commit of version 3 in the log of /t adds the same file more than once. ",
        "The commits of versions 3 to 4 in the log of /t add the same file more than once. ",
    ),
    "removing again": (
        lambda versions: Problem.of(ProblemKind.REPEATED_REMOVE, Where(versions=versions), table="/t"),
        "The commit of version 3 in the log of /t removes the same file more than once. ",
        "The commits of versions 3 to 4 in the log of /t remove the same file more than once. ",
    ),
    "unpublished": (
        lambda versions: Problem.of(ProblemKind.UNPUBLISHED_COMMIT, Where(versions=versions), table="/t", latest=2),
        "A catalog manages /t and was not queried. The commit of version 3 is staged, ",
        "A catalog manages /t and was not queried. The commits of versions 3 to 4 are staged, ",
    ),
    "lost": (
        lost,
        "Version 3 is gone from the log of /t: it was stored, and the log now ends with version 2.",
        "Versions 3 to 4 are gone from the log of /t: they were stored, and the log now ends with version 2.",
    ),
}


@pytest.mark.parametrize("kind", FAULTS)
def test_sentence_agrees_with_the_number_of_versions(kind: str) -> None:
    made, one, several = FAULTS[kind]
    assert made(ONE).text.startswith(one)
    assert made(TWO).text.startswith(several)


def test_damaged_commit_is_named_with_its_line_and_what_cannot_be_loaded() -> None:
    where = Where.of("/t/3.json", 3)
    with_line = Problem.of(ProblemKind.CORRUPT_COMMIT, replace(where, line=2), TWO, reason="not JSON")
    assert with_line.text.startswith("Version 3 cannot be read: /t/3.json, line 2: not JSON. Versions 3 to 4 cannot ")
    only_itself = Problem.of(ProblemKind.CORRUPT_COMMIT, where, ONE, reason="not JSON")
    assert only_itself.text == "Version 3 cannot be read: /t/3.json: not JSON."
    replaced = Problem.of(ProblemKind.CORRUPT_COMMIT, where, reason="not JSON")
    assert replaced.text.startswith(
        "The commit of version 3 cannot be read: /t/3.json: not JSON. A checkpoint replaces "
    )
    assert (str(with_line.where), with_line.reason, with_line.versions) == ("/t/3.json, line 2", "not JSON", TWO)


def test_ranges_that_touch_or_overlap_are_joined() -> None:
    ranges = [VersionRanges(((5, 9),)), VersionRanges(((0, 1), (6, 7))), VersionRanges(((2, 2), (11, 12)))]
    assert joined(ranges) == VersionRanges(((0, 2), (5, 9), (11, 12)))
    assert joined([]) == VersionRanges(())


@pytest.mark.parametrize("reason", ["Access Denied", "Access Denied.", "timed out after 5 s"])
def test_sentence_about_a_storage_error_ends_with_one_full_stop(reason: str) -> None:
    text = storage_fault(StorageError(path="s3://lake/t", reason=reason)).text
    assert text.endswith(f" {reason.rstrip('.')}.")


def test_checksum_that_differs_is_a_fault_with_all_fields_that_differ() -> None:
    sound = TableCondition(table="/t", latest=4)
    assert sound.with_wrong_checksum(4, "/t/4.crc", []) == sound
    once = sound.with_wrong_checksum(4, "/t/4.crc", ["metadata"])
    assert [fault.kind for fault in once.faults] == [ProblemKind.WRONG_CHECKSUM]
    assert once.with_wrong_checksum(4, "/t/4.crc", ["metadata"]) is once
    (fault,) = once.with_wrong_checksum(4, "/t/4.crc", ["num_files", "metadata"]).faults
    assert "version 4: num_files, metadata" in fault.text


def test_checksums_of_two_versions_that_differ_are_two_faults() -> None:
    newest = TableCondition(table="/t", latest=4).with_wrong_checksum(4, "/t/4.crc", ["metadata"])
    first, second = newest.with_wrong_checksum(2, "/t/2.crc", ["metadata"]).faults
    assert "version 4" in first.text
    assert "version 2" in second.text


def test_fault_that_is_known_and_found_again_is_named_once() -> None:
    first = Problem.of(ProblemKind.EMPTY_COMMIT, Where(versions=ONE), table="/t")
    same = Problem.of(ProblemKind.EMPTY_COMMIT, Where(versions=ONE), text="In the words of another release.")
    others = (
        Problem.of(ProblemKind.EMPTY_COMMIT, Where(versions=TWO)),
        Problem.of(ProblemKind.REPEATED_ADD, first.where),
    )
    found = TableCondition(table="/t", latest=4, faults=(first,)).with_known_faults([same, *others])
    assert found.faults == (first, *others)


@pytest.mark.parametrize("cause", [TypeError(), ValueError(), AttributeError()], ids=["unknown", "invalid", "no-map"])
def test_options_that_the_filesystem_rejects_are_to_be_corrected(cause: Exception) -> None:
    error = StorageError(path="s3://lake/t", reason="Invalid endpoint: minio:9000")
    error.__cause__ = cause
    fault = storage_fault(error, TWO)
    assert fault.advice == ("Correct the path or storage_options: the filesystem does not accept one of their values.")
    assert (fault.kind, fault.versions) == (ProblemKind.STORAGE_FAILED, TWO)


ERRORS = {
    *(
        "no_table",
        "access_denied",
        "storage_failed",
        "catalog_failed",
        "missing_action",
        "unsupported_protocol",
        "invalid_protocol",
    ),
    *("broken_schema", "unsupported_type_change"),
}


def fault_of(kind: ProblemKind, *versions: int, where: Where = NOWHERE, **facts: str) -> Problem:
    texts = {"text": f"A {kind.value}.", "advice": "Do it.", "reason": "", **facts}
    return Problem(kind=kind, where=where, versions=VersionRanges.of(versions), facts=texts)


def test_fault_that_no_version_suffers_from_is_a_warning_if_something_replaces_the_file() -> None:
    of_log = [kind for kind in ProblemKind if TEMPLATES[kind].found_by == "log"]
    assert {kind.value for kind in of_log if fault_of(kind).mark == "error"} == ERRORS
    assert {fault_of(kind).mark for kind in ProblemKind} == {"error", "warning"}
    assert {fault_of(kind, 3).mark for kind in ProblemKind} == {"error"}


def test_condition_is_one_json_document() -> None:
    """Other programs read it."""
    lost = fault_of(
        ProblemKind.MISSING_COMMIT,
        *(3, 4, 5),
        where=Where.of("/t/_delta_log/3.json", 3, line=7),
        reason="gone",
        read_instead="nothing",
    )
    hint = fault_of(ProblemKind.BROKEN_HINT)
    found = TableCondition(
        table="/t", latest=5, loadable=VersionRanges.of([0, 1, 2]), unread=VersionRanges.of([0, 2]), faults=(lost, hint)
    )
    empty: dict[str, Any] = {
        "file": None,
        "line": None,
        "reason": "",
        "versions": [],
        "missing": [],
        "read_instead": None,
    }
    assert found.to_json() == {
        "mark": "error",
        "latest_version": 5,
        "loadable_versions": [[0, 2]],
        "unloadable_versions": [[3, 5]],
        "unread_versions": [[0, 0], [2, 2]],
        "faults": [
            {
                "kind": "missing_commit",
                "mark": "error",
                "text": "A missing_commit.",
                "advice": "Do it.",
                "file": "/t/_delta_log/3.json",
                "line": 7,
                "reason": "gone",
                "versions": [[3, 5]],
                "missing": [[3, 3]],
                "read_instead": "nothing",
            },
            {**empty, "kind": "broken_hint", "mark": "warning", "text": "A broken_hint.", "advice": "Do it."},
        ],
    }
    assert (found.text, found.newest_loadable, found.is_readable) == ("A missing_commit. A broken_hint.", 2, False)
    assert (found.faults_of(ProblemKind.BROKEN_HINT), found.faults_at(4), found.faults_at(6)) == ((hint,), (lost,), ())
    assert (found.without(ProblemKind.MISSING_COMMIT).faults, found.without(ProblemKind.NO_TABLE)) == ((hint,), found)
    assert found.without(ProblemKind.MISSING_COMMIT).mark == "warning"
    whole = replace(found, pages_read=True, unread=VersionRanges())
    others = replace(whole, pages_read=False), replace(whole, unread=VersionRanges.of([1]))
    assert [each.is_complete for each in (whole, *others)] == [True, False, False]


def test_table_without_versions_cannot_be_read() -> None:
    nothing = TableCondition(table="/t")
    assert (nothing.mark, nothing.newest_loadable) == ("ok", None)
    assert not nothing.is_readable
    assert not nothing.is_complete
    assert nothing.with_lost_versions(VersionRanges.of([1])) == nothing
    known = TableCondition(table="/t", latest=2)
    assert known.with_lost_versions(VersionRanges()) == known


CHECKPOINT = "s3://user:secret@lake/t/_delta_log/00000000000000000010.checkpoint.parquet"
NAME = "00000000000000000010.checkpoint.parquet"


def test_checkpoint_that_cannot_be_read_is_named_with_what_replaces_it() -> None:
    where, instead = Where.of(CHECKPOINT, 10), "the 3 commits from version 0 on"
    replaced = Problem.of(ProblemKind.CORRUPT_CHECKPOINT, where, reason="no footer", read_instead=instead)
    assert replaced.text == (
        f"The checkpoint of version 10 cannot be read: {NAME}: no footer. deltasnap reads the 3 commits from version 0 "
        "on instead. Other readers that use this checkpoint fail."
    )
    lost = Problem.of(ProblemKind.CORRUPT_CHECKPOINT, where, TWO, reason="no footer!")
    assert lost.text == (
        f"The checkpoint of version 10 cannot be read: {NAME}: no footer! Nothing can replace it: versions 3 to 4 "
        "cannot be loaded."
    )
    assert [each.mark for each in (replaced, lost)] == ["warning", "error"]
    assert "secret" not in f"{replaced} {lost}"


@pytest.mark.parametrize(("files", "text"), [(1, "1 file"), (0, "0 files"), (2_000, "2,000 files")])
def test_checkpoint_that_the_stored_version_contradicts_is_named(files: int, text: str) -> None:
    found = Problem.of(ProblemKind.WRONG_CHECKPOINT, Where.of(CHECKPOINT, 10), found=files, stored=3_000)
    assert found.text == (
        f"The checkpoint of version 10 contradicts the stored version: {NAME} has {text}, the stored version has "
        f"3,000. The store follows the commits. Readers of this checkpoint see {text} and the later commits."
    )
    assert found.reason == f"expected 3000 files, found {files}"


def test_secrets_and_braces_in_facts_are_no_part_of_a_template() -> None:
    reason = "found {table} at s3://user:secret@lake/t"
    problem = Problem.of(ProblemKind.BROKEN_SCHEMA, table="s3://user:secret@lake/t", reason=reason)
    assert "found {table} at s3://" in problem.text
    assert "secret" not in f"{problem.text} {problem.facts} {problem}"


FACTS: dict[str, str | int] = {
    **dict.fromkeys(("table", "found", "reason", "action", "error", "needs", "change", "fields", "column"), "x"),
    **dict.fromkeys(("columns", "age", "patience"), "x"),
    "latest": 1,
    "stored": 2,
}


@pytest.mark.parametrize("kind", ProblemKind)
@pytest.mark.parametrize("versions", [NO_VERSIONS, ONE])
def test_every_kind_has_sentences(kind: ProblemKind, versions: VersionRanges) -> None:
    found = {"found": 3} if kind is ProblemKind.WRONG_CHECKPOINT else {}
    text = {"text": "It is x."} if kind is ProblemKind.FAILED_CHECK else {}
    given = {} if TEMPLATES[kind].advice else {"advice": "Do x."}
    problem = Problem.of(kind, Where.of("/t/f", 3), versions, **{**FACTS, **found, **text, **given})
    assert problem.advice.endswith((".", ")"))
    assert not {*"{}"}.intersection(f"{problem.text}{problem.advice}{problem.reason}")
