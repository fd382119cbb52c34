"""Every check is complete, and in the registry once."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import dagster as dg
import pytest

from deltasnap_assets.checks.check import AnyCheck, Verdict
from deltasnap_assets.checks.check_settings import CheckOptions, CheckSettings
from deltasnap_assets.checks.registry import CHECKS, SMALL_FILES, checks_of
from deltasnap_assets.settings.config import Settings
from deltasnap_assets.settings.table_settings import ASSET_NAMES, TABLE_ASSET, TableSettings
from deltasnap_assets.tables.checks.asset_checks import table_checks


def test_each_check_has_a_name_of_its_own() -> None:
    assert len({check.name for check in CHECKS}) == len(CHECKS)


def test_each_limit_is_described_and_each_check_has_options() -> None:
    options = [name for name, field in CheckSettings.model_fields.items() if field.annotation is CheckOptions]
    assert sorted(options) == sorted(check.name for check in CHECKS)
    assert all(field.description for name, field in CheckSettings.model_fields.items() if name not in options)


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.name)
def test_check_has_an_asset_an_expectation_and_advice(check: AnyCheck) -> None:
    assert check.asset in (TABLE_ASSET, *ASSET_NAMES)
    assert check.expects.endswith(".")
    assert check.advice.endswith(".")


def test_table_has_every_check_with_its_texts() -> None:
    table = TableSettings(name="t", path="/t")
    made = table_checks(Settings(storage="/s", tables=(table,)), table)
    specs: dict[str, dg.AssetCheckSpec] = {spec.name: spec for each in made for spec in each.check_specs}
    reported = {name: (spec.asset_key.path, spec.description, spec.blocking) for name, spec in specs.items()}
    on = checks_of(CheckSettings(), CHECKS)
    assert reported == {check.name: (["t", check.asset], check.expects, check.is_blocking) for check in on}


def text(**values: Any) -> str:
    return SMALL_FILES.text_of(Verdict(description="told", **values))


def test_advice_follows_the_description_of_a_failure() -> None:
    assert text(passed=True) == "told"
    assert text(passed=False) == f"told\n\nWhat to do: {SMALL_FILES.advice}"
    assert text(passed=False, advice="Restore it.") == "told\n\nWhat to do: Restore it."


def test_severity_comes_from_the_check_unless_the_verdict_overrides_it() -> None:
    assert SMALL_FILES.severity_of(Verdict(passed=False, description="")) == "warning"
    assert SMALL_FILES.severity_of(Verdict(passed=False, description="", severity="error")) == "error"


def test_options_of_a_table_select_its_checks_and_their_severity() -> None:
    options = {"small_files": {"enabled": False}, "tombstone_ratio": {"severity": "error", "blocking": True}}
    settings = CheckSettings.model_validate({**options, "readable_checkpoint": {"severity": "warn"}})
    found = {check.name: check for check in checks_of(settings, CHECKS)}
    assert [*found] == [check.name for check in checks_of(CheckSettings(), CHECKS) if check.name != "small_files"]
    failed = Verdict(passed=False, description="")
    ratio, checkpoint = found["tombstone_ratio"], found["readable_checkpoint"]
    assert (ratio.severity_of(failed), ratio.problem_of(failed).severity, ratio.blocks) == ("error", "error", True)
    assert checkpoint.severity_of(replace(failed, severity="error")) == "warning"
    assert ratio.severity_of(replace(failed, is_of_run=False)) == "warning"  # it does not block another run
    assert [check.name for check in found.values() if check.blocks] == ["checksum_agrees", "tombstone_ratio"]
    assert checks_of(CheckSettings(), CHECKS)[0].severity_of(failed) == CHECKS[0].severity
