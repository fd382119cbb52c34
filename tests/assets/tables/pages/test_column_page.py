"""The table of columns on the page of `computed_state`."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

from deltasnap_assets.checks.check_settings import CheckSettings
from deltasnap_assets.tables.pages.column_page import column_page
from deltasnap_core.support import ColumnTrend

AT = ColumnTrend(
    column="at",
    data_type="timestamp",
    records=4,
    nulls=1,
    least=datetime(2026, 11, 14, 22, 41, 40, tzinfo=UTC),
    greatest=datetime(2026, 11, 28, 22, 41, 40, 120_000, tzinfo=UTC),
    no_nulls="",
    no_extremes="",
)


def table_of(*trends: ColumnTrend) -> list[str]:
    return str(column_page(trends, CheckSettings())["columns"].value).splitlines()


def test_table_is_as_narrow_as_its_values_allow() -> None:
    assert table_of(AT) == [
        "| column | nulls | min | max |",
        "| - | - | - | - |",
        "| at | 25.00% | 2026-11-14 22:41:40 | 2026-11-28 22:41:40.12 |",
    ]


def test_table_states_why_a_number_is_unknown() -> None:
    unknown = replace(AT, column="b", least=None, no_extremes="1 of 2 files do not state its bounds")
    header, _, _, row = table_of(AT, unknown)
    assert header == "| column | nulls | min | max | unknown because |"
    assert row.endswith("| 2026-11-28 22:41:40.12 | 1 of 2 files do not state its bounds |")
