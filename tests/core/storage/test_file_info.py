"""File information in the form of each filesystem."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from deltasnap_core.storage.file_info import modification_time_ms, status_of, to_ms

MOMENT = 1_700_000_000_123


@pytest.mark.usefixtures("new_york")
@pytest.mark.parametrize(
    "value",
    [
        pytest.param(1_700_000_000.123, id="seconds"),
        pytest.param(MOMENT, id="milliseconds"),
        pytest.param(datetime.fromtimestamp(MOMENT / 1000, UTC), id="datetime"),
        pytest.param(datetime.fromtimestamp(MOMENT / 1000, UTC).replace(tzinfo=None), id="datetime without a zone"),
        pytest.param(datetime.fromtimestamp(MOMENT / 1000, timezone(timedelta(hours=9))), id="datetime elsewhere"),
        pytest.param("2023-11-14T22:13:20.123+00:00", id="ISO"),
        pytest.param("2023-11-14T22:13:20.123", id="ISO without a zone"),
    ],
)
def test_time_in_any_form_is_parsed_to_milliseconds_in_any_time_zone(value: object) -> None:
    assert to_ms(value) == MOMENT


def test_http_time_is_parsed_to_milliseconds() -> None:
    assert to_ms("Tue, 14 Nov 2023 22:13:20 GMT") == 1_700_000_000_000


def test_number_below_ten_to_the_eleven_is_in_seconds() -> None:
    assert to_ms(99_999_999_999) == 99_999_999_999_000
    assert to_ms(100_000_000_000) == 100_000_000_000


@pytest.mark.parametrize("key", ["mtime", "LastModified", "last_modified", "updated", "modified", "modificationTime"])
def test_modification_time_is_preferred_to_creation_time(key: str) -> None:
    assert modification_time_ms({"created": 1, key: MOMENT}) == MOMENT


@pytest.mark.parametrize(("info", "time"), [({"created": MOMENT}, MOMENT), ({"mtime": None}, 0), ({}, 0)])
def test_missing_modification_time_is_the_creation_time_or_zero(info: dict[str, Any], time: int) -> None:
    status = status_of("s3://lake/a", {"size": 7, **info})
    assert (status.path, status.size, status.modification_time) == ("s3://lake/a", 7, time)
