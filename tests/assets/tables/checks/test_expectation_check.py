"""An expectation about rows as an asset check of a project."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from deltasnap_assets import build_definitions, expectation_check
from deltasnap_assets.settings.config import Settings
from deltasnap_assets.settings.table_settings import TableSettings
from tests.core.scan.search.bisect_builders import appended

NAME = "amount_is_known"
KEY = dg.AssetKey(["events", "delta_log"])


def settings_of(folder: Path) -> Settings:
    table = TableSettings(name="events", path=str(folder / "t"))
    return Settings(storage=str(folder / "store"), tables=(table,))


def result_of(settings: Settings, check: dg.AssetChecksDefinition) -> dg.AssetCheckEvaluation:
    selection = dg.AssetSelection.checks(dg.AssetCheckKey(KEY, NAME))
    job = dg.define_asset_job("alone", selection=selection, executor_def=dg.in_process_executor)
    defs = dg.Definitions.merge(build_definitions(settings), dg.Definitions(asset_checks=[check], jobs=[job]))
    dg.Definitions.validate_loadable(defs)
    result = defs.resolve_job_def("alone").execute_in_process()
    (evaluation,) = result.get_asset_check_evaluations()
    return evaluation


def test_failed_expectation_names_the_version_the_job_and_the_rows(spark: object, tmp_path: Path) -> None:
    appended(tmp_path / "t", 7, bad=4)
    settings = settings_of(tmp_path)
    evaluation = result_of(settings, expectation_check(settings, "events", NAME, where="amount is null"))
    assert (evaluation.passed, evaluation.severity, evaluation.asset_key) == (False, dg.AssetCheckSeverity.ERROR, KEY)
    assert evaluation.description is not None
    assert evaluation.description.startswith("Version 4 broke it: version 3 has 0 matching rows")
    assert "; operation WRITE; job bad job; " in evaluation.description
    found: dict[str, Any] = {name: value.value for name, value in evaluation.metadata.items()}
    assert (found["version"], found["first_possible"], found["operation"]) == (4, 4, "WRITE")
    assert found["job"] == "bad job"
    assert found["some_rows"].count("`insert`") == 3


def test_expectation_that_holds_passes_after_the_latest_version_was_judged(spark: object, tmp_path: Path) -> None:
    appended(tmp_path / "t", 3, bad=-1)
    settings = settings_of(tmp_path)
    check = expectation_check(settings, "events", NAME, where="amount is null", severity="warning")
    evaluation = result_of(settings, check)
    assert evaluation.passed
    assert evaluation.metadata["versions_judged"].value == 1


def test_check_of_an_unknown_table_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="No table named orders"):
        expectation_check(settings_of(tmp_path), "orders", NAME, where="amount is null")
