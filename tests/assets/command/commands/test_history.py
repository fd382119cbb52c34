"""`deltasnap history --since --operation`: which commits are shown."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from deltasnap_core.support import commit_file
from tests.assets.command.commands.driver_commands_builders import run
from tests.builders import commit_info, metadata, protocol, write_log

LAST = 99


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A table whose versions 0, 10, 20, ... are MERGE, one a minute since 2023-11-14T22:13:20Z."""
    first = {0: [commit_info("MERGE"), protocol(), metadata()]}
    write_log(tmp_path, first | {v: [commit_info("WRITE" if v % 10 else "MERGE")] for v in range(1, LAST + 1)})
    return tmp_path


def shown(path: Path, *arguments: object) -> tuple[list[int], str]:
    """Return the versions that the command shows, and what it prints on stderr."""
    result = run("history", path, "--json", *arguments)
    return [row["version"] for row in json.loads(result.stdout)["rows"]], result.stderr


def test_commits_of_an_operation_are_found_far_back(path: Path) -> None:
    merges = [*range(90, -1, -10)]
    assert shown(path, "--operation", "MERGE") == (merges, "")
    assert shown(path, "--operation", "merge", "--limit", 3) == (merges[:3], "")
    assert shown(path, "--operation", "MERGE", "--operation", "OPTIMIZE", "--limit", len(merges)) == (merges, "")
    assert shown(path, "--operation", "OPTIMIZE") == ([], "")


def test_limit_counts_the_commits_that_are_wanted(path: Path) -> None:
    versions, notice = shown(path, "--operation", "WRITE")
    assert versions == [v for v in range(LAST, -1, -1) if v % 10][:20]
    assert notice == "Only 20 commits are shown; there are more. --limit N shows N of them.\n"


@pytest.mark.parametrize(("time", "first"), [("2023-11-14T23:43:20Z", 90), ("2023-11-14T23:43:21+00:00", 91)])
def test_commits_since_a_time_are_shown(time: str, first: int, path: Path) -> None:
    assert shown(path, "--since", time) == ([*range(LAST, first - 1, -1)], "")


def test_since_and_operation_are_both_conditions(path: Path) -> None:
    assert shown(path, "--since", "2023-11-14T22:54:00Z", "--operation", "MERGE") == ([90, 80, 70, 60, 50], "")
    assert shown(path, "--since", "2030-01-01", "--operation", "MERGE") == ([], "")


def test_lost_commits_stay_because_they_may_be_wanted_ones(path: Path) -> None:
    log = path / "_delta_log"
    (log / commit_file(95)).write_text("{nope", encoding="utf-8")
    (log / commit_file(57)).unlink()
    versions, problems = shown(path, "--operation", "MERGE", "--since", "2023-11-14T22:54:00Z")
    assert versions == [95, 90, 80, 70, 60, 57, 50]
    assert problems.startswith("error: ")
    assert shown(path, "--operation", "MERGE", "--since", "2023-11-14T23:20:00Z")[0] == [95, 90, 80, 70]


def test_time_that_cannot_be_read_is_wrong_usage(path: Path) -> None:
    result = run("history", path, "--since", "yesterday")
    assert result.exit_code == 2
    assert "--since" in result.output
