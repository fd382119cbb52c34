"""Every check is complete, and in the registry once."""

from __future__ import annotations

from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from deltasnap_assets import checks
from deltasnap_assets.checks.check import Check, CheckOptions, Limits, Verdict
from deltasnap_assets.checks.files.small_files import SmallFiles
from deltasnap_assets.checks.registry import CHECKS, CheckSettings, checks_of
from deltasnap_assets.settings.config import Settings
from deltasnap_assets.settings.table_settings import ASSET_NAMES, TABLE_ASSET, TableSettings
from deltasnap_assets.tables.checks.asset_checks import table_checks

NOT_CHECKS = {"compaction", "__init__", "check", "condition_check", "facts", "partition_files", "registry"}


def test_each_file_of_a_check_is_named_after_it_and_in_the_registry() -> None:
    (folder,) = checks.__path__
    files = {path.stem for path in Path(folder).rglob("*.py")} - NOT_CHECKS
    assert sorted(check.name for check in CHECKS) == sorted(files)
    assert {type(check).__module__.rpartition(".")[2]: check.name for check in CHECKS} == {name: name for name in files}


def test_model_of_the_settings_has_the_limits_of_each_check() -> None:
    modules = {import_module(type(check).__module__) for check in CHECKS}
    found = {each for module in modules for each in vars(module).values() if isinstance(each, type)}
    models = {each for each in found if issubclass(each, Limits) and each is not Limits}
    assert set(CheckSettings.__bases__) == models
    options = [name for name, field in CheckSettings.model_fields.items() if field.annotation is CheckOptions]
    assert options == [check.name for check in CHECKS]
    assert all(field.description for name, field in CheckSettings.model_fields.items() if name not in options)


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.name)
def test_check_has_an_asset_an_expectation_and_advice(check: Check) -> None:
    assert check.asset in (TABLE_ASSET, *ASSET_NAMES)
    assert check.expects.endswith(".")
    assert check.advice.endswith(".")


def test_table_has_every_check_with_its_texts() -> None:
    table = TableSettings(name="t", path="/t")
    made = table_checks(Settings(storage="/s", tables=(table,)), table)
    specs: dict[str, dg.AssetCheckSpec] = {spec.name: spec for each in made for spec in each.check_specs}
    reported = {name: (spec.asset_key.path, spec.description, spec.blocking) for name, spec in specs.items()}
    assert reported == {check.name: (["t", check.asset], check.expects, check.is_blocking) for check in CHECKS}


def text(**values: Any) -> str:
    return SmallFiles().text_of(Verdict(description="told", **values))


def test_advice_follows_the_description_of_a_failure() -> None:
    assert text(passed=True) == "told"
    assert text(passed=False) == f"told\n\nWhat to do: {SmallFiles.advice}"
    assert text(passed=False, advice="Restore it.") == "told\n\nWhat to do: Restore it."


def test_severity_comes_from_the_check_unless_the_verdict_overrides_it() -> None:
    assert SmallFiles().severity_of(Verdict(passed=False, description="")) == "warning"
    assert SmallFiles().severity_of(Verdict(passed=False, description="", severity="error")) == "error"


def test_options_of_a_table_select_its_checks_and_their_severity() -> None:
    options = {"small_files": {"enabled": False}, "tombstone_ratio": {"severity": "error", "blocking": True}}
    settings = CheckSettings.model_validate({**options, "readable_checkpoint": {"severity": "warn"}})
    found = {check.name: check for check in checks_of(settings, CHECKS)}
    assert [*found] == [check.name for check in CHECKS if check.name != "small_files"]
    failed = Verdict(passed=False, description="")
    ratio, checkpoint = found["tombstone_ratio"], found["readable_checkpoint"]
    assert (ratio.severity_of(failed), ratio.problem_of(failed).severity, ratio.blocks) == ("error", "error", True)
    assert checkpoint.severity_of(replace(failed, severity="error")) == "warning"
    assert ratio.severity_of(replace(failed, is_of_run=False)) == "warning"  # it does not block another run
    assert [check.name for check in found.values() if check.blocks] == ["checksum_agrees", "tombstone_ratio"]
    assert checks_of(CheckSettings(), CHECKS)[0].severity_of(failed) == CHECKS[0].severity
