"""`deltasnap size` end to end."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.assets.command.commands.driver_commands_builders import run
from tests.builders import add, metadata, protocol, write_log

pytestmark = pytest.mark.spark


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder with a configured table of one file and an orphan."""
    write_log(tmp_path / "t", {0: [protocol(), metadata(), add("a", size=3)]})
    (tmp_path / "t" / "a").write_bytes(b"abc")
    (tmp_path / "t" / "left").write_bytes(b"xy")
    (tmp_path / "deltasnap.yaml").write_text("tables:\n  - {name: events, path: t}\n", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def rows(*arguments: str) -> list[dict[str, Any]]:
    result = run("size", *arguments, "--json")
    assert result.exit_code == 0, result.output
    found: list[dict[str, Any]] = json.loads(result.stdout)["rows"]
    return found


def test_bills_of_all_configured_tables_with_their_costs(session: Any, folder: Path) -> None:
    (bill,) = rows("--price", "1000000000")
    log = sum(file.stat().st_size for file in (folder / "t" / "_delta_log").iterdir())
    assert (bill["table"], bill["live_bytes"], bill["orphan_bytes"], bill["log_bytes"]) == ("events", 3, 2, log)
    assert bill["monthly_cost"] == bill["total_bytes"] == log + 5


def test_table_that_cannot_be_read_fails_after_the_others(session: Any, folder: Path) -> None:
    result = run("size", "nothing", "./t", "--no-listing")
    assert result.exit_code == 1
    assert "nothing: No Delta table at" in result.stderr
    assert result.stdout.split()[-2:] == ["?", "?"]  # orphans, and so the sum
