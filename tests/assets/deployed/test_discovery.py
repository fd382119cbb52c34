"""Who lists the patterns of `discover`, with real processes: the code location, and no run."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

pytestmark = [pytest.mark.spark, pytest.mark.thorough]

from tests.assets.deployed.dagster_dev import DagsterDev  # noqa: E402

PROJECT = """
import json, os, sys
from pathlib import Path

HERE = Path(__file__).parent
LAKE = str(HERE / "bronze")

def note(**facts):
    with open(HERE / "noted", "a") as file:
        file.write(json.dumps({"pid": os.getpid(), **facts}) + "\\n")

def hook(event, arguments):
    if event in ("os.listdir", "os.scandir") and str(arguments[0]).startswith(LAKE):
        note(listed=str(arguments[0]))

sys.addaudithook(hook)
note(started=True)

import dagster as dg

@dg.definitions
def defs():
    return dg.load_from_defs_folder(path_within_project=HERE)
"""
PYPROJECT = '[tool.dg]\ndirectory_type = "project"\n[tool.dg.project]\nroot_module = "lake"\n'
COMPONENT = """
type: deltasnap_assets.DeltaTableSnapshotsComponent
attributes: {{storage: store, default_status: stopped, discover: [{{path: "{folder}/bronze/*"}}]}}
"""


def test_process_of_a_run_lists_no_folder_of_a_pattern(tmp_path: Path) -> None:
    dev = DagsterDev(tmp_path, project=PROJECT)
    (tmp_path / "pyproject.toml").write_text(PYPROJECT)
    (tmp_path / "lake" / "defs").mkdir(parents=True)
    (tmp_path / "lake" / "__init__.py").touch()
    (tmp_path / "lake" / "defs" / "defs.yaml").write_text(COMPONENT.format(folder=tmp_path))
    (tmp_path / "bronze" / "one" / "_delta_log").mkdir(parents=True)
    with dev.running():
        run_id = dev.launch("fleet")
        assert dev.ended(run_id).is_success, dev.texts(run_id)
        process = dev.process_of(run_id)
    noted = [json.loads(line) for line in (tmp_path / "noted").read_text(encoding="utf-8").splitlines()]
    loading = [each["pid"] for each in noted if "started" in each]
    assert process in loading[1:]
    assert {each["pid"] for each in noted if "listed" in each} == {loading[0]}
