"""What a check of a table records: severity, description, numbers. No run, no Spark."""

from __future__ import annotations

from typing import Any

import dagster as dg
import pytest

from deltasnap_assets.checks.check import Severity, Verdict
from deltasnap_assets.checks.small_files import SmallFiles
from deltasnap_assets.tables.checks.asset_checks import _result

KEY = dg.AssetCheckKey(dg.AssetKey(["events", "all_files"]), "small_files")


def result_of(**values: Any) -> dg.AssetCheckResult:
    return _result("events", SmallFiles(), Verdict(description="told", **values))


@pytest.mark.parametrize(
    ("reported", "severity"),
    [
        ("error", dg.AssetCheckSeverity.ERROR),
        ("warning", dg.AssetCheckSeverity.WARN),
        (None, dg.AssetCheckSeverity.WARN),
    ],
    ids=str,
)
def test_failed_check_is_an_error_only_for_a_fault_of_the_log(
    reported: Severity | None, severity: dg.AssetCheckSeverity
) -> None:
    failed = result_of(passed=False, severity=reported, numbers={"files": 3})
    assert (failed.passed, failed.severity) == (False, severity)
    assert (failed.asset_key, failed.check_name) == (KEY.asset_key, KEY.name)
    assert failed.description == f"told\n\nWhat to do: {SmallFiles.advice}"
    assert {name: entry.value for name, entry in failed.metadata.items()} == {"files": 3}


def test_passed_check_has_no_advice() -> None:
    assert result_of(passed=True).description == "told"


def test_check_prefers_the_advice_of_its_verdict() -> None:
    assert str(result_of(passed=False, advice="Restore it.").description).endswith("What to do: Restore it.")
