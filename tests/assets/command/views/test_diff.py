"""`deltasnap diff`: the difference between two lists of live files, without Spark."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from itertools import combinations, pairwise
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest
from hypothesis import HealthCheck, given, settings

from deltasnap_assets.command.views.condition_view import FaultyTableError
from deltasnap_assets.command.views.diff import VersionDiff, compare_versions
from deltasnap_core import DeltaSnapError, TableLog, VersionGapError, VersionNotFoundError
from deltasnap_core.log.commits import commit_reader
from deltasnap_core.protocol.log_files.file_names import checksum_file
from deltasnap_core.support import commit_file, file_difference, read_commits
from tests.assets.command.commands.driver_commands_builders import parsed, run
from tests.builders import add, metadata, protocol, remove, write_log
from tests.checkpoint_files import write_checkpoint
from tests.golden import GoldenTable, load_golden_tables
from tests.oracle import OracleState, replay
from tests.random_logs import RandomLog, random_logs, write
from tests.thorough import one_in

CREATED = (protocol(), metadata())

Files = set[tuple[str, str | None]]


def compared(path: Path, one: int, other: int) -> VersionDiff:
    """Errors: as they were before they were explained."""
    try:
        return compare_versions(str(path), {}, one, other)
    except FaultyTableError as error:
        raise error.__cause__ or error from None


def plain(path: str) -> str:
    """A decoded path; local paths without their scheme, which has three spellings."""
    return unquote(re.sub(r"^file:/+", "/", path))


def files_of(diff: VersionDiff) -> tuple[Files, Files]:
    added, removed = ([(plain(file.path), file.vector_id) for file in files] for files in (diff.added, diff.removed))
    assert len({*added}) + len({*removed}) == len(added) + len(removed)
    return {*added}, {*removed}


def expected_files(state: Mapping[str, Any]) -> Files:
    return {(plain(file["path_raw"]), file["dv_unique_id"]) for file in state["files"]}


def pairs(table: GoldenTable) -> list[tuple[int, int]]:
    """The first and the last loadable version of a table, and some that follow each other."""
    loadable = sorted(version for version, state in table.states.items() if state["files"] is not None)
    return sorted({(loadable[0], loadable[-1]), *pairwise(loadable[:4])}) if loadable[1:] else []


@pytest.mark.slow
@pytest.mark.parametrize("first_table", one_in(8, range(8)))
def test_diff_of_golden_tables_matches_the_expected_files(first_table: int, golden: Path) -> None:
    wrong, compared_tables, gaps = {}, set(), set()
    for table in load_golden_tables(golden)[first_table::8]:
        for first, last in pairs(table):
            before, after = (expected_files(table.states[version]) for version in (first, last))
            try:
                diff = compared(table.path, first, last)
            except VersionGapError:
                gaps.add((table.name, first, last))
                continue
            compared_tables.add(table.name)
            if files_of(diff) != (after - before, before - after) or diff.assumed is not None:
                wrong[table.name, first, last] = diff
    assert wrong == {}
    assert len(compared_tables) >= 8
    assert gaps <= {("derived__gap-before-checkpoint", 0, 13)}


def test_diff_across_a_missing_commit_is_an_error_even_if_a_checkpoint_replaces_it(tmp_path: Path) -> None:
    log = write_log(tmp_path, {0: [*CREATED], **{version: [add(f"{version}")] for version in range(1, 6)}})
    write_checkpoint(log, 4, "classic", [*CREATED, *(add(f"{version}") for version in range(1, 5))])
    (log / commit_file(2)).unlink()
    with pytest.raises(VersionGapError) as raised:
        compared(tmp_path, 1, 5)
    assert (raised.value.version, [*raised.value.missing]) == (5, [2])


@pytest.mark.thorough
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(made=random_logs())
def test_diff_of_random_logs_matches_replayed_files(made: RandomLog, tmp_path_factory: pytest.TempPathFactory) -> None:
    table = tmp_path_factory.mktemp("random")
    states = replay(made.commits)
    write(table, made, states)
    for first, last in combinations(made.versions, 2):
        diff = compared(table, first, last)
        before, after = (oracle_files(states[version]) for version in (first, last))
        assert diff.assumed is None
        assert files_of(diff) == (after - before, before - after)


def oracle_files(state: OracleState) -> Files:
    return set(state.files)  # their paths are decoded already


@pytest.mark.parametrize("version", [0, 1])
def test_wrong_checksum_changes_no_difference(tmp_path: Path, version: int) -> None:
    log = write_log(tmp_path, {0: [*CREATED], 1: [add("a")]})
    wrong = {"tableSizeBytes": 1, "numFiles": 1, "numMetadata": 1, "numProtocol": 1, **protocol(3, 7)}
    wrong |= {"metadata": metadata(table_id="other")["metaData"]}
    (log / checksum_file(version)).write_text(json.dumps(wrong))
    assert compared(tmp_path, 0, 1).changes == ()


def test_commits_that_do_not_fit_into_memory_are_not_damage_of_a_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    log = write_log(tmp_path, {0: [*CREATED, add("a")], 1: [add(f"x{number}") for number in range(50)], 2: [add("b")]})
    write_checkpoint(log, 0, "classic", [*CREATED, add("a")])
    table = TableLog.for_path(tmp_path)
    later = read_commits(table.store, [table.list(0).commits[2]])
    monkeypatch.setattr(commit_reader, "IN_MEMORY_BYTES", 1000)
    monkeypatch.setattr(commit_reader, "MEASURED_BYTES", 10)
    before = table.at(1)
    assert file_difference(table.store, table.log_path, before, later) is None
    assert before.loaded.checkpoint is not None
    assert "cannot be used" not in caplog.text


@pytest.mark.parametrize("versions", [(0, 1), (1, 2)], ids=["between", "before"])
def test_diff_with_a_commit_that_does_not_fit_into_memory_names_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, versions: tuple[int, int]
) -> None:
    write_log(tmp_path, {0: [*CREATED, add("a")], 1: [add(f"x{number}") for number in range(50)], 2: [add("b")]})
    monkeypatch.setattr(commit_reader, "IN_MEMORY_BYTES", 1000)
    monkeypatch.setattr(commit_reader, "MEASURED_BYTES", 10)
    with pytest.raises(DeltaSnapError, match=r"0001\.json is too large to compare in memory.*with Spark instead"):
        compared(tmp_path, *versions)


def test_diff_has_the_size_of_a_removed_file_without_a_size_in_its_remove(tmp_path: Path) -> None:
    write_log(tmp_path, {0: [*CREATED, add("a", size=7)], 1: [remove("a")]})
    assert parsed("diff", tmp_path, 0, 1)["removed"] == [{"path": "a", "size": 7}]


@pytest.mark.parametrize("version", [5, 1767225600000, 2**63 - 1])
def test_diff_with_an_unknown_version_lists_the_existing_ones(version: int, tmp_path: Path) -> None:
    write_log(tmp_path, {0: [*CREATED, add("a")], 1: [add("b")]})
    for arguments in ((0, version), (version, 0), (version, version)):
        result = run("diff", tmp_path, *arguments)
        assert result.exit_code == 1
        assert isinstance(result.exception, VersionNotFoundError)
        assert f"Version {version} of the Delta table" in str(result.exception)
        assert str(result.exception).endswith("does not exist. Available: 0 to 1.")


def test_diff_up_to_a_stray_commit_far_away_names_the_gap(tmp_path: Path) -> None:
    log = write_log(tmp_path, {0: [*CREATED, add("a")]})
    (log / commit_file(2**63 - 1)).write_bytes(b"{}")
    result = run("diff", tmp_path, 0, 2**63 - 1)
    assert result.exit_code == 1
    assert "missing" in str(result.exception)


def test_diff_with_an_unreadable_checkpoint_uses_the_commits_and_warns(tmp_path: Path) -> None:
    log = write_log(
        tmp_path,
        {
            0: [],
            1: [*CREATED, remove("gone"), add("kept"), remove("kept"), add("new", size=3), add("short")],
            2: [remove("short")],
        },
    )
    live = [*CREATED, add("gone"), add("kept")]
    (checkpoint,) = write_checkpoint(log, 0, "classic", live)
    (log / commit_file(0)).unlink()
    checkpoint.write_bytes(checkpoint.read_bytes()[:-20])
    (log / f"{0:020}.crc").write_text(checksum())
    diff = compared(tmp_path, 0, 2)
    assert files_of(diff) == ({("new", None)}, {("gone", None)})
    assert diff.assumed is not None
    assert diff.changes[0].startswith("domains cannot be compared: Corrupt Delta log file")
    result = run("diff", tmp_path, 0, 2)
    assert result.exit_code == 0
    assert "The files of version 0 cannot be read, so files that it contains may be shown as added." in result.stderr
    assert "- 1 file, size unknown" in result.stdout


def checksum() -> str:
    state = {"tableSizeBytes": 2, "numFiles": 2, "numMetadata": 1, "numProtocol": 1}
    return json.dumps({**state, "protocol": CREATED[0]["protocol"], "metadata": CREATED[1]["metaData"]})
