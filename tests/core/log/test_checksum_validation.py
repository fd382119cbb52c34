"""Which differences between a `.crc` file and its log are reported. Without Spark."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from deltasnap_core import TableLog
from deltasnap_core.log.checksum_validation import compare_with_log
from deltasnap_core.protocol.actions import AddFile
from deltasnap_core.protocol.state.version_checksum import VersionChecksum
from tests.builders import LOG_PATH, add, metadata, protocol, write_log
from tests.conftest import FixedClock
from tests.without_spark import log_without_spark

COUNTS = {"tableSizeBytes": 1, "numFiles": 1, "numMetadata": 1, "numProtocol": 1}


def differences(table: Path, *, listed: str = "a", **said: Any) -> list[str]:
    """The fields that differ. listed: the path of the live file, canonical."""
    state = log_without_spark(TableLog.for_path(table, clock=FixedClock())).snapshot.computed_state
    checksum = VersionChecksum.parse(json.dumps({**COUNTS, **said}).encode())
    files = [AddFile.from_json(add(listed)["add"])]
    found = compare_with_log(checksum, state, in_commit_timestamp=None, all_files=files, log_path=LOG_PATH)
    return [difference.field for difference in found]


@pytest.mark.parametrize(
    ("properties", "expected"),
    [({}, ["set_transactions"]), ({"delta.setTransactionRetentionDuration": "interval 1 days"}, [])],
)
def test_transactions_are_compared_unless_they_expire(
    tmp_path: Path, properties: dict[str, str], expected: list[str]
) -> None:
    write_log(tmp_path, {0: [protocol(), metadata(configuration=properties), add("a")]})
    assert differences(tmp_path, setTransactions=[{"appId": "q", "version": 1, "lastUpdated": 1}]) == expected


@pytest.mark.parametrize(
    ("logged", "canonical", "expected"),
    [
        ("a%20b", "a%20b", []),
        ("a%20%62", "a%20b", []),
        ("file:///t/f", "file:/t/f", []),
        ("/t/f", "file:/t/f", []),
        ("a", "b", ["all_files"]),
    ],
)
def test_files_are_compared_by_the_key_of_their_path(
    tmp_path: Path, logged: str, canonical: str, expected: list[str]
) -> None:
    write_log(tmp_path, {0: [protocol(), metadata(), add("a")]})
    assert differences(tmp_path, listed=canonical, allFiles=[add(logged)["add"]]) == expected


@pytest.mark.parametrize(("omitted", "expected"), [("readerFeatures", []), ("writerFeatures", ["protocol"])])
def test_writers_may_omit_an_empty_list_of_features(tmp_path: Path, omitted: str, expected: list[str]) -> None:
    logged: dict[str, Any] = {
        "minReaderVersion": 3,
        "minWriterVersion": 7,
        "readerFeatures": [],
        "writerFeatures": ["appendOnly"],
    }
    write_log(tmp_path, {0: [{"protocol": logged}, metadata(), add("a")]})
    said = {name: value for name, value in logged.items() if name != omitted}
    assert differences(tmp_path, protocol=said) == expected
