"""The component in a separate `dg` project, with the commands of `dg`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tomllib
from importlib.util import find_spec
from pathlib import Path

import pytest

from deltasnap_core import SnapshotStore

if find_spec("dagster_dg_cli") is None:
    pytest.skip("needs dagster-dg-cli", allow_module_level=True)

pytest.importorskip("deltalake")

from deltasnap_assets.demo.demo_table import grow

ROOT = Path(__file__).resolve().parents[2]
DEFINITIONS = """
from pathlib import Path

import dagster as dg

@dg.definitions
def defs():
    return dg.load_from_defs_folder(path_within_project=Path(__file__).parent)
"""
PYPROJECT = """
[project]
name = "lake"
version = "0.1.0"
requires-python = ">=3.11"
dependencies = ["dagster"]

[tool.dg]
directory_type = "project"

[tool.dg.project]
root_module = "lake"
"""
TABLES = """
type: deltasnap_assets.DeltaTableSnapshots
attributes:
  storage: store
  spark: {config: {spark.ui.enabled: false}}
  tables:
    - {name: events, path: events, versions: {since: 3}, refresh: "0 5 * * *", poll_seconds: 10}
    - {name: clicks, path: "s3://lake/{{ env.STAGE }}/clicks", storage_options: {key: "{{ env.STAGE }}"}, refresh: null}
  discover:
    - {path: "{{ env.STAGE }}/*", name: "bronze_{name}"}
"""

pytestmark = [pytest.mark.spark, pytest.mark.thorough]


class Project:
    def __init__(self, folder: Path) -> None:
        self.folder, self.home = folder, folder / "home"
        self.home.mkdir()
        (folder / "pyproject.toml").write_text(PYPROJECT)
        module = folder / "src" / "lake"
        (module / "defs" / "tables").mkdir(parents=True)
        (module / "__init__.py").touch()
        (module / "definitions.py").write_text(DEFINITIONS)
        self.file = module / "defs" / "tables" / "defs.yaml"
        self.file.write_text(TABLES)
        (self.file.parent / "test" / "orders" / "_delta_log").mkdir(parents=True)
        # As if this checkout were installed.
        installed = folder / "site" / "dagster_deltasnap-0.dist-info"
        installed.mkdir(parents=True)
        (installed / "METADATA").write_text("Metadata-Version: 2.1\nName: dagster-deltasnap-checkout\nVersion: 0\n")
        project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
        group = "dagster_dg_cli.registry_modules"
        entries = [f"{name} = {value}" for name, value in project["entry-points"][group].items()]
        (installed / "entry_points.txt").write_text("\n".join([f"[{group}]", *entries, ""]))

    def dg(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        paths = [str(ROOT), str(self.folder / "src"), str(self.folder / "site")]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "STAGE": "test"}
        environment["DAGSTER_HOME"] = str(self.home)
        command = [str(Path(sys.executable).parent / "dg"), *arguments]
        return subprocess.run(command, cwd=self.folder, env=environment, capture_output=True, text=True, timeout=300)


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    return Project(tmp_path_factory.mktemp("lake"))


def test_dg_lists_the_component(project: Project) -> None:
    listed = project.dg("list", "components", "--json")
    assert listed.returncode == 0, listed.stdout + listed.stderr
    assert "deltasnap_assets.DeltaTableSnapshots" in listed.stdout


def test_dg_checks_and_lists_the_definitions_of_the_file(project: Project) -> None:
    checked = project.dg("check", "defs")
    assert checked.returncode == 0, checked.stdout + checked.stderr
    listed = project.dg("list", "defs", "--json")
    assert listed.returncode == 0, listed.stdout + listed.stderr
    text = json.dumps(json.loads(listed.stdout))
    for name in (
        "events/all_files",
        "clicks/delta_log",
        "events_snapshots",
        "clicks_new_commits",
        "events_refresh",
        "bronze_orders/all_files",
    ):
        assert name in text
    assert "clicks_refresh" not in text


def test_first_versions_of_a_project_are_materialized_without_a_daemon(tmp_path: Path) -> None:
    project = Project(tmp_path)
    attributes = "{storage: store, tables: [{name: events, path: events}]}"
    project.file.write_text(f"type: deltasnap_assets.DeltaTableSnapshots\nattributes: {attributes}\n")
    for _ in grow(project.file.parent / "events", 3):
        pass
    refreshed = project.dg("launch", "--job", "refresh_all_tables")
    assert refreshed.returncode == 0, refreshed.stdout + refreshed.stderr
    assert SnapshotStore.open(None, tmp_path / "store").versions("events") == [0, 1, 2]
    again = project.dg("launch", "--assets", "events/computed_state", "--partition", "1")
    assert again.returncode == 0, again.stdout + again.stderr


def test_mistake_in_the_file_is_reported_with_its_key(tmp_path: Path) -> None:
    project = Project(tmp_path)
    project.file.write_text(TABLES.replace("poll_seconds: 10", "pol_seconds: 10"))
    checked = project.dg("check", "yaml")
    assert checked.returncode != 0
    assert "defs.yaml:7" in checked.stdout
    assert "attributes.tables.0.pol_seconds" in checked.stdout
    assert "schemas" not in checked.stdout
    listed = project.dg("list", "defs")
    assert "unknown key, did you mean poll_seconds?" in listed.stdout + listed.stderr
    assert "defs.yaml:7" in listed.stdout + listed.stderr


def test_scaffolded_file_is_valid_for_dg(tmp_path: Path) -> None:
    project = Project(tmp_path)
    project.file.unlink()
    made = project.dg("scaffold", "defs", "deltasnap_assets.DeltaTableSnapshots", "lake_tables")
    assert made.returncode == 0, made.stdout + made.stderr
    listed = project.dg("list", "defs", "--json")
    assert "events/all_files" in listed.stdout, listed.stdout + listed.stderr
