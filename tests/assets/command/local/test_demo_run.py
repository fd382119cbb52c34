from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from typer.testing import CliRunner

from deltasnap_assets.command import endings
from deltasnap_assets.command.cli import app
from deltasnap_assets.command.local import demo_run
from deltasnap_assets.command.local.demo_run import run_demo, show_versions
from deltasnap_assets.command.views.refresh_view import Refreshed
from deltasnap_assets.demo.demo_table import FIRST_LIFE_VERSIONS, NEWS_VERSIONS
from deltasnap_assets.settings.config import Settings, SparkSettings
from deltasnap_assets.settings.loading import demo_settings, read_settings
from deltasnap_assets.spark import java
from deltasnap_core import TableLog
from deltasnap_core.support import how_to_install
from tests.builders import add, commit_info, metadata, protocol, write_log
from tests.core.store.manifests import store_computed_versions, stored_table


class Demo:
    """A demo whose table has so many versions, and whose refresh has a given result."""

    def __init__(self, folder: Path, versions: int, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder, self.grown, self.refreshed = folder, list[int](), Refreshed()
        self.spark: SparkSettings | None = None

        def grow(path: Path, wanted: int) -> Any:
            assert path == folder / ".deltasnap" / "demo" / "events"
            path.mkdir(parents=True, exist_ok=True)
            self.grown = list(range(versions, wanted))
            return iter(self.grown)

        def refresh(settings: Settings, names: list[str]) -> dict[str, Refreshed]:
            self.spark = settings.spark
            return dict.fromkeys(names, self.refreshed)

        monkeypatch.setattr(demo_run, "version_count", lambda _: versions)
        monkeypatch.setattr(demo_run, "grow", grow)
        monkeypatch.setattr(demo_run, "refresh_tables", refresh)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (0, FIRST_LIFE_VERSIONS),
        (FIRST_LIFE_VERSIONS - 1, FIRST_LIFE_VERSIONS),
        (FIRST_LIFE_VERSIONS, FIRST_LIFE_VERSIONS + NEWS_VERSIONS),
    ],
    ids=["new", "interrupted", "complete"],
)
def test_demo_completes_its_table_and_later_adds_a_few_commits(
    before: int, after: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    demo, spark = Demo(tmp_path, before, monkeypatch), SparkSettings(master="local[1]")
    assert run_demo(tmp_path, spark)
    assert (demo.grown, demo.spark) == (list(range(before, after)), spark)
    written = read_settings(tmp_path / ".deltasnap" / "demo" / "deltasnap.yaml")
    assert [Path(each).resolve() for each in (written.storage, written.tables[0].path)] == [
        tmp_path / ".deltasnap" / "store",
        tmp_path / ".deltasnap" / "demo" / "events",
    ]
    assert written.tables[0].poll_seconds == demo_settings(tmp_path).tables[0].poll_seconds
    printed = capsys.readouterr().out
    assert f"Writing versions {before} to {after - 1}" in printed
    for command in (" ui ", " demo ", " inspect .deltasnap/demo/events\n"):
        assert command in printed


def test_demo_whose_refresh_fails_suggests_no_next_steps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    demo = Demo(tmp_path, 0, monkeypatch)
    demo.refreshed = Refreshed(error="failed")
    assert not run_demo(tmp_path, SparkSettings())
    assert "Next steps" not in capsys.readouterr().out


@pytest.mark.parametrize(("is_well", "code"), [(True, 0), (False, 1)])
@pytest.mark.parametrize("remote", [None, "sc://host:1"])
def test_command_fails_if_the_refresh_of_the_demo_does(
    remote: str | None, is_well: bool, code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[object] = []

    def run_demo(*given: object) -> bool:
        done.append(given)
        return is_well

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(java, "check_java", lambda: done.append("java"))
    monkeypatch.setattr(demo_run, "run_demo", run_demo)
    result = CliRunner().invoke(app, ["demo", *(["--remote", remote] if remote else [])])
    assert result.exit_code == code
    assert done == [*([] if remote else ["java"]), (tmp_path, SparkSettings(remote=remote))]


@pytest.mark.parametrize(
    ("command", "package", "extra"), [(["demo"], "deltalake", "demo"), (["ui"], "dagster-webserver", "ui")]
)
def test_command_without_its_package_names_the_extra(
    command: list[str], package: str, extra: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    monkeypatch.setattr(endings, "find_spec", asked.append)
    result = CliRunner().invoke(app, command)
    expected = f"error: This command needs the package {package}: {how_to_install(extra)}.\n"
    assert (result.exit_code, result.stderr) == (1, expected)
    assert asked == [package.replace("-", "_")]


def test_stored_versions_are_shown_with_their_operations(tmp_path: Path) -> None:
    settings = demo_settings(tmp_path)
    (table,) = settings.tables
    first = [commit_info("CREATE TABLE"), protocol(), metadata()]
    write_log(Path(table.path), {0: first, 1: [commit_info("MERGE"), add("a")], 2: [commit_info("DELETE")]})
    store_computed_versions(stored_table(Path(settings.storage)), TableLog.for_path(table.path), range(3))
    console = Console(file=io.StringIO(), width=100)
    show_versions(console, settings, table, [])
    show_versions(console, settings, table, [1, 2])
    assert isinstance(console.file, io.StringIO)
    rows = [line.split()[:2] for line in console.file.getvalue().splitlines() if line.strip(" \u2500")]
    assert rows == [["events:", "stored"], ["version", "operation"], ["1", "MERGE"], ["2", "DELETE"]]
