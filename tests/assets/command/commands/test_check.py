"""`deltasnap check`: exit codes, selection, formats."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from deltasnap_assets.checks.check_settings import CheckSettings
from deltasnap_assets.checks.registry import CHECKS, checks_of
from tests.assets.command.cli_builders import deltasnap, without_java
from tests.assets.command.commands.driver_commands_builders import run
from tests.builders import add, commit_info, metadata, protocol, remove, write_log

STATS = '{"numRecords": 1}'
STALE = "fresh_table"  # the commits of `write_log` are old
ON = [check.name for check in checks_of(CheckSettings(), CHECKS)]
OTHERS = ",".join(check.name for check in CHECKS if check.name != STALE)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder with a sound table, a damaged one, and a folder that is no table."""
    sound = {
        0: [commit_info("CREATE TABLE"), protocol(), metadata(), add("a", size=10, stats=STATS)],
        1: [remove("a"), add("b", stats=STATS)],
    }
    write_log(tmp_path / "lake" / "sound", sound)
    damaged = write_log(tmp_path / "lake" / "damaged", {0: sound[0], 1: [add("b", stats=STATS)]})
    (damaged / f"{1:020}.json").write_text('{"add": ')
    (tmp_path / "empty").mkdir()
    monkeypatch.chdir(tmp_path)
    return tmp_path


def rows(*arguments: str) -> dict[str, dict[str, Any]]:
    """The results of one table by check."""
    found = json.loads(run("check", *arguments, "--format", "json").stdout)
    return {row["check"]: row for row in found["rows"]}


EXIT_CODES = {
    "no error": (["lake/sound"], 0),
    "a warning, if warnings fail": (["lake/sound", "--fail-on", "warn"], 1),
    "no warning, if warnings fail": (["lake/sound", "--fail-on", "warn", "--select", OTHERS], 0),
    "a damaged log": (["lake/damaged"], 1),
    "a damaged log, if other checks are selected": (["lake/damaged", "--select", "small_files"], 1),
    "no table": (["empty"], 3),
    "no folder": (["nothing"], 3),
    "a pattern that matches nothing": (["lake/x*"], 3),
    "no table after a sound one": (["lake/sound", "nothing"], 3),
    "a damaged log and no table": (["nothing", "lake/damaged"], 1),
    "an unknown check": (["lake/sound", "--select", "fresh"], 2),
    "an unknown limit": (["lake/sound", "--set", "small=1"], 2),
    "a wrong limit": (["lake/sound", "--set", "max_small_file_ratio=much"], 2),
    "a limit without a value": (["lake/sound", "--set", "max_small_file_ratio"], 2),
    "a limit that is no date": (["lake/sound", "--set", "max_small_file_ratio=2026-13-01"], 2),
    "a limit in a deep list": (["lake/sound", "--set", f"max_small_file_ratio={'[' * 3000}"], 2),
    "no target": ([], 2),
    "an unknown format": (["lake/sound", "--format", "xml"], 2),
}


@pytest.mark.parametrize("case", EXIT_CODES)
def test_exit_code(case: str) -> None:
    arguments, code = EXIT_CODES[case]
    assert run("check", *arguments).exit_code == code


def test_unknown_limit_is_answered_with_the_nearest_one() -> None:
    found = run("check", "lake/sound", "--set", "max_smal_file_ratio=1")
    assert "did you mean max_small_file_ratio?" in " ".join(found.stderr.replace("│", " ").split())


def test_results_are_those_of_all_checks_in_order() -> None:
    found = rows("lake/sound")
    assert list(found) == ON
    assert {name for name, row in found.items() if row["status"] == "failed"} == {STALE}
    assert {row["version"] for row in found.values()} == {1}


def test_damage_is_reported_beside_selected_checks_of_the_newest_readable_version() -> None:
    found = rows("lake/damaged", "--select", "small_files")
    assert (found["contiguous_log"]["status"], found["contiguous_log"]["severity"]) == ("failed", "error")
    assert (found["small_files"]["status"], found["small_files"]["version"]) == ("passed", 0)


def test_json_names_the_schema_the_exit_code_and_targets_without_a_table() -> None:
    found = json.loads(run("check", "lake/sound", "nothing", "--format", "json").stdout)
    assert (found["schema_version"], found["exit_code"]) == (1, 3)
    assert [each["target"] for each in found["unreachable"]] == ["nothing"]
    assert "there is no such folder" in found["unreachable"][0]["reason"]


def test_limits_of_the_command_line_replace_those_of_the_configuration(folder: Path) -> None:
    checks = "{fresh_within_hours: 1, max_commits_since_checkpoint: 1}"
    text = f"tables:\n  - {{name: sound, path: lake/sound, checks: {checks}}}\n"
    (folder / "deltasnap.yaml").write_text(text, encoding="utf-8")
    found = rows("sound", "--set", "fresh_within_hours=1000000")
    assert found["fresh_table"]["status"] == "passed"
    assert found["checkpoint_lag"]["status"] == "failed"


def test_configured_name_wins_over_a_folder_and_a_path_is_always_the_folder(folder: Path) -> None:
    (folder / "deltasnap.yaml").write_text("tables:\n  - {name: empty, path: lake/sound}\n", encoding="utf-8")
    assert run("check", "empty").exit_code == 0
    assert run("check", "./empty").exit_code == 3
    assert json.loads(run("inspect", "empty", "--json").stdout)["latest_version"] == 1


def test_pattern_checks_each_table_once() -> None:
    found = json.loads(run("check", "lake/*", "lake/sound", "--format", "json").stdout)
    assert sorted({row["target"] for row in found["rows"]})[-1].endswith("lake/sound")
    assert sum(row["check"] == "fresh_table" for row in found["rows"]) == 2


def test_junit_has_a_case_for_each_check_and_fails_those_that_fail_the_command() -> None:
    root = ElementTree.fromstring(run("check", "lake/sound", "lake/damaged", "nothing", "--format", "junit").stdout)
    sound, damaged, nothing = root.findall("testsuite")
    assert [case.get("name") for case in sound.findall("testcase")] == ON
    assert (sound.get("failures"), sound.get("tests")) == ("0", str(len(ON)))
    assert "contiguous_log" in {case.get("name") for case in damaged.findall("testcase[failure]")}
    assert nothing.find("testcase/error") is not None


def test_junit_is_xml_whatever_the_log_says(folder: Path) -> None:
    hostile = [protocol(), metadata(schemaString='{"type": "\x01\uffff<]]>&"}'), add("a")]
    write_log(folder / "lake" / "hostile", {0: hostile})
    root = ElementTree.fromstring(run("check", "lake/hostile", "--format", "junit").stdout)
    assert root.find("testsuite/testcase/failure") is not None


def test_last_line_counts_the_checks_by_their_result() -> None:
    *lines, last = run("check", "lake/sound", "lake/damaged").stdout.splitlines()
    marks = Counter(line.split()[0] for line in lines if line.startswith("  ") and not line.startswith("   "))
    assert (marks["error"], marks["warning"]) == (1, 1)
    assert last == f"{marks['passed']} checks passed, 1 failed, 1 warning"


def test_annotations_are_one_line_for_each_failure() -> None:
    lines = run("check", "lake/sound", "no%thing", "--format", "github").stdout.splitlines()
    assert lines[0].startswith("::warning title=lake/sound%3A fresh_table::The last commit is ")
    assert lines[1].startswith("::error title=no%25thing::No Delta table at ")
    assert "no%25" in lines[1].partition("::No")[2]
    assert len(lines) == 2


def test_results_go_to_a_file(folder: Path) -> None:
    result = run("check", "lake/sound", "--format", "json", "--output", "found.json")
    assert (result.exit_code, result.stdout) == (0, "")
    assert json.loads((folder / "found.json").read_text())["exit_code"] == 0


def test_table_that_fits_into_memory_needs_no_java_and_no_configuration(folder: Path) -> None:
    result = deltasnap("check", "lake/sound", folder=folder, **without_java(folder))
    assert (result.returncode, result.stderr) == (0, "")
    assert "  passed   contiguous_log: All versions from 0 to 1 can be loaded." in result.stdout.splitlines()
    assert result.stdout.splitlines()[-1].endswith("0 failed, 1 warning")
