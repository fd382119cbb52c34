from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from deltasnap_assets.command import refresh_view
from deltasnap_assets.command.refresh_view import Refreshed, refresh_tables, versions_text
from deltasnap_assets.settings.config import Settings, TableSettings
from deltasnap_assets.settings.loading import demo_settings
from deltasnap_core import DeltaTableNotFoundError


def test_failing_table_does_not_delay_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    outcomes: dict[str, Any] = {
        "absent": DeltaTableNotFoundError(path="s3://me:hunter2@lake/t"),
        "odd": RecursionError("[deep] \x1b[2J"),
        "good": None,
    }

    def refresh_table(
        defs: object, settings: object, table: TableSettings, *_: object, on_materialized: Any, **__: object
    ) -> None:
        outcome = outcomes[table.name]
        on_materialized(0, 2)
        if isinstance(outcome, Exception):
            raise outcome

    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("DAGSTER_HOME", raising=False)
    monkeypatch.setattr(refresh_view, "refresh_table", refresh_table)
    tables = tuple(demo_settings(tmp_path).tables[0].model_copy(update={"name": name}) for name in outcomes)
    done = refresh_tables(Settings(storage=str(tmp_path / "store"), tables=tables), list(outcomes))
    assert done["good"] == Refreshed(versions=(0, 1, 2))
    assert "No Delta table found" in (done["absent"].error or "")
    assert done["absent"].versions == (0, 1, 2)  # those before the fault
    assert "RecursionError" in (done["odd"].error or "")
    reported, problems = capfd.readouterr()
    assert "error: absent: No Delta table found at s3://" in problems
    assert r"error: odd: RecursionError: [deep] \x1b[2J" in problems
    assert "good: versions 0 to 2 materialized" in reported
    assert "hunter2" not in reported + problems


TEXTS = {
    "none": ((), "up to date"),
    "one": ((7,), "version 7 materialized"),
    "a range": ((7, 8, 9), "versions 7 to 9 materialized"),
    "with gaps": ((1, 3, 9), "3 versions between 1 and 9 materialized"),
}


@pytest.mark.parametrize("case", TEXTS)
def test_versions_are_shown_as_text(case: str) -> None:
    versions, expected = TEXTS[case]
    assert versions_text(versions) == expected
