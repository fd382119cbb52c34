"""Builders for the tests of driver commands."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from typer.testing import CliRunner, Result

from deltasnap_assets.command.cli import app
from tests.builders import add, commit_info, metadata, protocol, remove, write_log


def table(folder: Path, name: str = "events") -> Path:
    """A table of four versions: two files, one replaced, a changed property, one file added again."""
    path = folder / name
    write_log(
        path,
        {
            0: [commit_info("CREATE TABLE"), protocol(), metadata(), add("a", size=10), add("b", size=20)],
            1: [commit_info("MERGE", userName="ada\x1b[31m"), remove("b"), add("c", size=30)],
            2: [commit_info("SET TBLPROPERTIES"), metadata(configuration={"x": "1"}), domain("app", "{}"), remove("a")],
            3: [commit_info("RESTORE", operationMetrics={"files": "1", "none": "0"}), add("a", size=10), add("t")],
            4: [commit_info("DELETE"), remove("t")],
        },
    )
    return path


def domain(name: str, configuration: str) -> dict[str, Any]:
    return {"domainMetadata": {"domain": name, "configuration": configuration, "removed": False}}


def run(*arguments: object) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def parsed(*arguments: object) -> Any:
    result = run(*arguments, "--json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)
