"""Arguments that no command can use are wrong usage: one line, and exit code 2."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.assets.command.test_driver_commands import run, table

WRONG = {
    "inspect without a path": (["inspect", ""], "found an empty text"),
    "history without a path": (["history", ""], "found an empty text"),
    "init without a path": (["init", ""], "found an empty text"),
    "init into no folder": (["init", "events", "--out", "missing/x.yaml"], "There is no folder"),
    "init onto a folder": (["init", "events", "--out", "events", "--force"], "is a folder"),
    "endless retention": (
        ["vacuum", "events", "--dry-run", "--retain", "inf"],
        "should be less than or equal to 1000000",
    ),
    "retention that is no number": (["vacuum", "events", "--dry-run", "--retain", "nan"], "should be "),
}


@pytest.mark.parametrize("case", WRONG)
def test_invalid_argument_is_wrong_usage(case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    arguments, reported = WRONG[case]
    table(tmp_path)
    monkeypatch.chdir(tmp_path)
    result = run(*arguments)
    assert result.exit_code == 2
    assert reported in " ".join(result.output.replace("│", " ").split())
