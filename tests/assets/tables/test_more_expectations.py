from __future__ import annotations

import json
from dataclasses import replace

import pytest

from deltasnap_assets.settings.config import CheckSettings, TableSettings
from deltasnap_assets.tables.checks.advice import ADVICE, with_advice
from deltasnap_assets.tables.checks.asset_checks import table_checks
from deltasnap_assets.tables.checks.expectations import (
    even_partitions,
    expired_tombstones,
    fresh_table,
    schema_unchanged,
    statistics_coverage,
    steady_growth,
)
from deltasnap_assets.tables.file_facts import FileFacts, PartitionFiles, TombstoneFacts
from deltasnap_assets.tables.quantities import span_text
from tests.assets.tables.test_metadata import state

HOUR = 3_600_000
LIMITS = CheckSettings()


@pytest.mark.parametrize(
    ("times", "hours", "now", "passed"),
    [
        ([0], None, 24, True),
        ([0], None, 25, False),
        ([0, 10, 11], None, 42, False),
        ([0, 10, 11], None, 35, True),
        ([0, 100, 101], None, 400, True),
        ([0, 100], 2, 102, True),
        ([0, 100], 2, 103, False),
    ],
)
def test_table_is_stale_after_three_of_its_pauses_or_as_configured(
    times: list[int], hours: float | None, now: int, passed: bool
) -> None:
    limits = CheckSettings(fresh_within_hours=hours)
    assert fresh_table([time * HOUR for time in times], limits, now_ms=now * HOUR).passed is passed


def test_files_without_statistics_are_counted() -> None:
    assert statistics_coverage(state(), LIMITS).passed
    verdict = statistics_coverage(state(num_files_without_records=2), LIMITS)
    assert not verdict.passed
    assert verdict.description.startswith("2 of 4 files have no statistics (50% have some")


def facts(*sizes: int) -> FileFacts:
    partitions = tuple(
        PartitionFiles(values={"day": str(number)}, num_files=1, size_in_bytes=size)
        for number, size in enumerate(sorted(sizes, reverse=True))
    )
    return FileFacts(bins=(), largest=(), smallest=(), partitions=partitions, num_partitions=len(partitions))


@pytest.mark.parametrize(
    ("sizes", "passed"),
    [((), True), ((5,), True), ((100, 1), True), ((10, 1, 1, 1, 1), True), ((11, 1, 1, 1, 1), False)],
)
def test_partition_many_times_the_one_in_the_middle_is_told(sizes: tuple[int, ...], passed: bool) -> None:
    assert even_partitions(facts(*sizes), LIMITS).passed is passed


def test_expired_tombstones_matter_where_they_are_many_and_large() -> None:
    told = TombstoneFacts(
        num_files=100,
        size_in_bytes=10**9,
        num_without_size=0,
        first_expires_ms=0,
        last_expires_ms=0,
        num_expired=100,
        expired_bytes=10**9,
    )
    assert not expired_tombstones(told, state(), LIMITS).passed
    assert expired_tombstones(replace(told, num_expired=3), state(), LIMITS).passed
    assert expired_tombstones(replace(told, expired_bytes=10), state(), LIMITS).passed


def test_change_of_the_schema_is_told_of_the_version_that_made_it() -> None:
    metadata = state().metadata
    assert metadata is not None
    wider = json.loads(metadata.schema_string or "")
    wider["fields"].append({"name": "new", "type": "string", "nullable": True, "metadata": {}})
    after = state(metadata=replace(metadata, schema_string=json.dumps(wider)))
    verdicts = schema_unchanged({3: state(), 4: state(), 5: after}, (3, 4, 5))
    assert {version: verdict.passed for version, verdict in verdicts.items()} == {4: True, 5: False}
    assert verdicts[5].description == "Version 5 changed the schema: column new added (string)."


def test_growth_is_judged_by_that_of_the_versions_before() -> None:
    sizes = [100, 110, 120, 130, 140, 150, 160, 300, 299]
    states = {version: state(size_in_bytes=size) for version, size in enumerate(sizes)}
    verdicts = steady_growth(states, range(len(sizes)), LIMITS)
    assert {version: verdict.passed for version, verdict in verdicts.items()} == {6: True, 7: False, 8: True}
    assert "Version 7 made the table grow by 140 B" in verdicts[7].description


def test_failed_check_says_what_to_do() -> None:
    assert with_advice("small_files", "Bad.", passed=False) == f"Bad.\n\nWhat to do: {ADVICE['small_files']}"
    assert with_advice("small_files", "Good.", passed=True) == "Good."


def test_every_check_has_its_advice() -> None:

    names = {key.name for checks in table_checks(TableSettings(name="t", path="/t")) for key in checks.check_keys}
    assert names == set(ADVICE)


def test_spans_are_told_in_their_largest_unit() -> None:
    assert [span_text(ms) for ms in (-5, 999, 1000, 119_999, 2 * HOUR, 49 * HOUR)] == [
        "0 seconds",
        "0 seconds",
        "1 second",
        "119 seconds",
        "2 hours",
        "2 days",
    ]
