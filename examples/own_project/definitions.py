"""A Dagster project: the tables of deltasnap.yaml, and an asset that reads the newest version of one."""

# No `from __future__ import annotations` here: Dagster reads the types of inputs.
# ruff: noqa: I002

from pathlib import Path

import dagster as dg
import pandas as pd

from deltasnap_assets import LatestVersion, build_definitions, load_settings


@dg.asset(ins={"files": dg.AssetIn(["events", "all_files"], partition_mapping=LatestVersion())})
def largest_files(files: pd.DataFrame) -> pd.DataFrame:
    """Return the ten largest files of the newest version of `events`."""
    return files.nlargest(10, "size")[["path", "size"]]


@dg.definitions
def defs() -> dg.Definitions:
    """Return the definitions of the project."""
    settings = load_settings(Path(__file__).parent / "deltasnap.yaml")
    return dg.Definitions.merge(build_definitions(settings), dg.Definitions([largest_files]))
