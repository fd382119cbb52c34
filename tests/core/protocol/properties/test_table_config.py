"""The properties of a table: their values, durations and retentions."""

from __future__ import annotations

import logging
from collections.abc import Callable

import pytest

from deltasnap_core.protocol.properties import table_config
from deltasnap_core.protocol.properties.intervals import parse_interval_ms
from deltasnap_core.protocol.properties.retention import KEEP_ALL, Retention, monotonic_retentions
from deltasnap_core.protocol.properties.table_config import (
    checkpoint_policy,
    parse_size_bytes,
    protected_checkpoints_before,
    stats_columns,
    target_file_size_bytes,
    writes_stats_as_json,
    writes_stats_as_struct,
)

HOUR_MS = 60 * 60 * 1000
DAY_MS = 24 * HOUR_MS


def test_defaults_match_delta() -> None:
    assert table_config.deleted_file_retention_ms({}) == 7 * DAY_MS
    assert table_config.set_transaction_retention_ms({}) is None
    assert table_config.num_indexed_cols({}) == 32
    assert table_config.column_mapping_mode({}) == "none"
    assert table_config.in_commit_timestamps_enabled({}) is False
    assert table_config.in_commit_timestamp_enablement({}) == (None, None)


@pytest.mark.parametrize(("text", "value"), [("true", True), ("TRUE", True), ("false", False), ("False", False)])
def test_boolean_property_is_read_in_any_case(text: str, value: bool, caplog: pytest.LogCaptureFixture) -> None:
    configuration = {"delta.enableInCommitTimestamps": text}
    assert table_config.in_commit_timestamps_enabled(configuration) is value
    assert caplog.messages == []


def test_properties_of_the_table_take_precedence() -> None:
    configuration = {
        "delta.deletedFileRetentionDuration": "interval 1 hour",
        "delta.setTransactionRetentionDuration": "interval 0 hours",
        "delta.dataSkippingNumIndexedCols": "-1",
        "delta.columnMapping.mode": "ID",
        "delta.enableInCommitTimestamps": "True",
    }
    assert table_config.deleted_file_retention_ms(configuration) == HOUR_MS
    assert table_config.set_transaction_retention_ms(configuration) == 0
    assert table_config.num_indexed_cols(configuration) == -1
    assert table_config.column_mapping_mode(configuration) == "id"
    assert table_config.in_commit_timestamps_enabled(configuration)


@pytest.mark.parametrize(
    ("key", "value", "function"),
    [
        ("delta.deletedFileRetentionDuration", "forever", table_config.deleted_file_retention_ms),
        ("delta.setTransactionRetentionDuration", "1 month", table_config.set_transaction_retention_ms),
        ("delta.dataSkippingNumIndexedCols", "-2", table_config.num_indexed_cols),
        ("delta.columnMapping.mode", "both", table_config.column_mapping_mode),
        ("delta.enableInCommitTimestamps", "yes", table_config.in_commit_timestamps_enabled),
        ("delta.checkpointPolicy", "v3", table_config.checkpoint_policy),
    ],
    ids=lambda value: value if isinstance(value, str) and value.startswith("delta.") else "",
)
def test_invalid_property_counts_as_absent_with_a_warning(
    key: str, value: str, function: Callable[[dict[str, str]], object], caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        assert function({key: value}) == function({})
    assert key in caplog.text
    assert value in caplog.text


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, (5, 1700000000000)),
        ({"delta.inCommitTimestampEnablementVersion": None}, (None, 1700000000000)),
        ({"delta.inCommitTimestampEnablementTimestamp": None}, (5, None)),
    ],
    ids=["both", "no version", "no timestamp"],
)
def test_in_commit_timestamp_enablement_is_a_version_and_a_timestamp(
    changes: dict[str, str | None], expected: tuple[int | None, int | None]
) -> None:
    configuration = {
        "delta.inCommitTimestampEnablementVersion": "5",
        "delta.inCommitTimestampEnablementTimestamp": "1700000000000",
        **changes,
    }
    present = {key: value for key, value in configuration.items() if value is not None}
    assert table_config.in_commit_timestamp_enablement(present) == expected


@pytest.mark.parametrize(
    ("text", "paths"),
    [
        ("a, b.c, `d,e`.f", (("a",), ("b", "c"), ("d,e", "f"))),
        ("`a``b`", (("a`b",),)),
        ("`a` . b. c ,d", (("a", "b", "c"), ("d",))),
        ("", ()),
        (" \t", ()),
        ("a,", None),
        ("a bc", None),
        ("`a", None),
    ],
)
def test_stats_columns_are_paths_of_names(text: str, paths: tuple[tuple[str, ...], ...] | None) -> None:
    assert stats_columns({"delta.dataSkippingStatsColumns": text}) == paths


def test_checkpoint_properties_have_the_defaults_of_spark() -> None:
    assert checkpoint_policy({}) == "classic"
    assert checkpoint_policy({"delta.checkpointPolicy": "V2"}) == "v2"
    assert (writes_stats_as_json({}), writes_stats_as_struct({})) == (True, True)
    assert not writes_stats_as_json({"delta.checkpoint.writeStatsAsJson": "false"})
    assert protected_checkpoints_before({}) == 0


def test_earlier_name_of_the_change_data_feed_counts_only_without_the_current_one() -> None:
    earlier = {"delta.enableChangeDataCapture": "true"}
    assert table_config.change_data_feed_enabled(earlier)
    assert not table_config.change_data_feed_enabled({**earlier, "delta.enableChangeDataFeed": "false"})


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("104857600", 100 << 20),
        ("100mb", 100 << 20),
        ("1", 1),
        (" 1GB ", 1 << 30),
        ("64k", 64 << 10),
        ("2t", 2 << 40),
        ("7b", 7),
        ("4096p", 1 << 62),
    ],
)
def test_size_is_a_number_of_bytes_or_has_a_unit(text: str, size: int) -> None:
    assert parse_size_bytes(text) == size


@pytest.mark.parametrize(
    "text",
    ["", "mb", "0", "-1", "1.5gb", "1 gb", "1kib", "9e9", "٣", f"{(1 << 62) + 1}", f"{1 << 62}0", "5000p1", "4097p"],
)
def test_other_text_is_not_a_size(text: str) -> None:
    with pytest.raises(ValueError, match="expected a size"):
        parse_size_bytes(text)


def test_target_size_comes_from_the_table_or_is_128_mib() -> None:
    assert target_file_size_bytes({"delta.targetFileSize": "1mb"}) == 1 << 20
    assert target_file_size_bytes({}) == 128 << 20
    assert target_file_size_bytes({"delta.targetFileSize": "many"}) == 128 << 20


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [
        ("interval 1 week", 7 * DAY_MS),
        ("interval 168 hours", 7 * DAY_MS),
        ("30 days", 30 * DAY_MS),
        ("  INTERVAL  2 Weeks 1 day  ", 15 * DAY_MS),
        ("1 day -1 hours", 82_800_000),
        ("interval + 90 minutes", 5_400_000),
        ("interval 1.5 seconds", 1_500),
        ("interval 0 days", 0),
        ("1 hour", 3_600_000),
        ("1 minute", 60_000),
        ("1 second", 1_000),
        ("1 millisecond", 1),
        ("1000000 microseconds", 1_000),
        ("1000000000 nanoseconds", 1_000),
        ("1 microsecond", 0),
        ("1999 microseconds", 1),
        ("interval 1 second 1500000 microseconds", 2_500),
        ("1999999 nanoseconds", 1),
        ("500 microseconds 500 microseconds", 1),
        ("1 second -1 second", 0),
        (".5 seconds", 500),
        ("2. seconds", 2_000),
        ("2147483647 days", 2_147_483_647 * DAY_MS),
    ],
)
def test_interval_is_rounded_down_to_milliseconds(text: str, milliseconds: int) -> None:
    assert parse_interval_ms(text) == milliseconds


@pytest.mark.parametrize(
    "text",
    [
        "", "interval", "week", "7", "1 month", "interval 1 year", "interval -1 days", "1.5 days", "1day", "1 day ago",
        "1 fortnight", "intervals 1 day", "1 second -2 seconds", "-1 microsecond", ". seconds", "1.5 milliseconds",
        "x 1 day", "2147483648 days", "306783379 weeks", "9223372036854775808 microseconds",
    ],
)  # fmt: skip
def test_invalid_duration_is_an_error(text: str) -> None:
    with pytest.raises(ValueError, match="interval"):
        parse_interval_ms(text)


@pytest.mark.parametrize(
    ("deleted_at", "is_kept"), [(None, False), (0, False), (4, False), (5, False), (6, True)], ids=str
)
def test_tombstone_is_kept_if_strictly_later_than_the_time(deleted_at: int | None, is_kept: bool) -> None:
    assert Retention.after(5).keeps(deleted_at) is is_kept


def test_tombstone_without_a_time_was_deleted_in_1970() -> None:
    assert [Retention(expired_until=0).keeps(deleted_at) for deleted_at in (None, 0, 1)] == [False, False, True]
    assert Retention(expired_until=-1).keeps(None)


@pytest.mark.parametrize("timestamp", [0, -1, -(2**63)])
@pytest.mark.parametrize("deleted_at", [None, 0, -7, 1])
def test_without_a_time_every_tombstone_is_kept(timestamp: int, deleted_at: int | None) -> None:
    assert Retention.after(timestamp) == KEEP_ALL
    assert Retention.after(timestamp).keeps(deleted_at)


def test_retention_has_the_timestamp_of_its_creation() -> None:
    assert [Retention.after(time).min_file_retention_timestamp for time in (-1, 0, 5)] == [0, 0, 5]


@pytest.mark.parametrize(
    ("one", "other", "is_within"),
    [(0, 0, True), (0, 5, False), (5, 0, True), (5, 5, True), (4, 5, False), (6, 5, True)],
)
def test_retention_is_within_another_that_keeps_at_least_as_much(one: int, other: int, is_within: bool) -> None:
    assert Retention.after(one).is_within(Retention.after(other)) is is_within


@pytest.mark.parametrize(("one", "other", "later"), [(0, 5, 5), (5, 0, 5), (4, 5, 5), (0, 0, 0)])
def test_later_of_two_retentions_keeps_less(one: int, other: int, later: int) -> None:
    assert Retention.after(one).later_of(Retention.after(other)) == Retention.after(later)


def test_no_version_keeps_more_tombstones_than_the_one_before() -> None:
    requested = {6: Retention.after(4), 3: Retention.after(3), 4: Retention.after(2), 5: Retention.after(8)}
    found = monotonic_retentions(requested)
    assert found == {3: Retention.after(3), 4: Retention.after(3), 5: Retention.after(8), 6: Retention.after(8)}
    assert list(found) == [3, 4, 5, 6]
