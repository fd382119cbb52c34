"""Each of `examples/` runs as its README says, on a table of the tests."""

from __future__ import annotations

import importlib.util
import os
import runpy
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import dagster as dg
import pandas as pd
import pyarrow as pa
import pytest
import yaml

from deltasnap_assets import load_settings
from deltasnap_assets.runs.refresh import refresh_table
from tests.assets.command.cli_builders import deltasnap
from tests.driver_bases import use_driver_bases

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"


@pytest.fixture
def events(tmp_path: Path) -> Path:
    """A table of three versions and rows."""
    deltalake = pytest.importorskip("deltalake")
    for number in range(3):
        rows = pa.table({"id": [number], "day": [f"2026-03-0{number + 1}"]})
        deltalake.write_deltalake(tmp_path / "events", rows, mode="append", partition_by=["day"])
    return tmp_path / "events"


def example(name: str, folder: Path) -> Path:
    """Return a copy of an example, in which it may write."""
    return Path(shutil.copytree(EXAMPLES / name, folder / name))


@pytest.mark.spark
def test_library_shows_facts_and_rows(
    events: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["library.py", str(events), "day > '2026-03-01'"])
    runpy.run_path(str(EXAMPLES / "library.py"), run_name="__main__")
    version, *commits, files, header, _, _ = capsys.readouterr().out.splitlines()
    assert version == "version 2: id, day"
    assert [line.split()[0] for line in commits] == ["2", "1", "0"]
    assert files.startswith("3 files, ")
    assert files.endswith(" bytes, 3 rows")
    assert header.split() == ["id", "day"]


@pytest.mark.slow
def test_own_project_reads_the_newest_version(events: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    use_driver_bases(monkeypatch)
    monkeypatch.setenv("EVENTS", str(events))
    folder = example("own_project", tmp_path)
    defs: dg.Definitions = module_at(folder / "definitions.py").defs()
    dg.Definitions.validate_loadable(defs)
    settings = load_settings(folder / "deltasnap.yaml")
    with dg.DagsterInstance.ephemeral() as instance:
        refresh_table(defs, settings, settings.tables[0], instance, log_level="ERROR")
        result = defs.resolve_implicit_global_asset_job_def().execute_in_process(
            instance=instance, asset_selection=[dg.AssetKey("largest_files")]
        )
    files = result.output_for_node("largest_files")
    assert isinstance(files, pd.DataFrame)
    assert (list(files.columns), len(files)) == (["path", "size"], 3)


def module_at(file: Path) -> Any:
    spec = importlib.util.spec_from_file_location("example", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.spark  # a separate program
def test_dg_project_is_valid(events: Path, tmp_path: Path) -> None:
    if importlib.util.find_spec("dagster_dg_cli") is None:
        pytest.skip("needs dagster-dg-cli")
    folder = example("dg_project", tmp_path)
    paths = os.pathsep.join([str(EXAMPLES.parent), str(folder / "src")])
    environment = {**os.environ, "PYTHONPATH": paths, "EVENTS": str(events), "DAGSTER_HOME": str(tmp_path)}
    dg_command = [str(Path(sys.executable).parent / "dg"), "list", "defs", "--json"]
    listed = subprocess.run(
        dg_command, cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=300
    )
    assert listed.returncode == 0, listed.stdout + listed.stderr
    assert "events/all_files" in listed.stdout


def test_workflow_checks_the_tables(events: Path, tmp_path: Path) -> None:
    workflow = yaml.safe_load((EXAMPLES / "check-tables.yml").read_text(encoding="utf-8"))
    (command,) = (
        step["run"] for step in workflow["jobs"]["check"]["steps"] if "deltasnap check" in step.get("run", "")
    )
    _, *words = shlex.split(command)
    arguments = list(dict.fromkeys("events" if word.startswith("s3://") else word for word in words))
    passed = deltasnap(*arguments, folder=tmp_path)
    assert (passed.returncode, passed.stdout, passed.stderr) == (0, "", "")
    (events / "_delta_log" / f"{1:020}.json").unlink()
    failed = deltasnap(*arguments, folder=tmp_path)
    assert failed.returncode == 1
    assert "::error " in failed.stdout


def test_readme_names_each_example() -> None:
    text = (EXAMPLES / "README.md").read_text(encoding="utf-8")
    for each in EXAMPLES.iterdir():
        assert each.name == "README.md" or f"[`{each.name}`](" in text
