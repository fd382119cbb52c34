"""Versions of which no checkpoint is written. They are rejected before a session is needed."""

# ruff: noqa: F401

from __future__ import annotations

from pathlib import Path

import pytest

from deltasnap_core import TableLog
from deltasnap_core.errors import SparkRequiredError
from tests.builders import metadata, protocol
from tests.checkpoint_files import write_checkpoint
from tests.core.snapshot.checkpoints.test_checkpoint_writer import (
    LAST,
    make_table,
    test_invalid_schema_is_an_error,
    test_unknown_writer_features_are_rejected_by_name,
    test_unknown_writer_version_is_rejected,
    test_version_with_checkpoint_is_not_written_again,
    test_wrong_checksum_does_not_allow_what_the_protocol_forbids,
)
from tests.driver_bases import spark
from tests.without_spark import log_without_spark


def test_checkpoint_of_a_later_version_does_not_count_as_one_of_the_version(tmp_path: Path) -> None:
    write_checkpoint(make_table(tmp_path), LAST, "classic", [protocol(), metadata()])
    log = log_without_spark(TableLog.for_path(tmp_path))
    assert not log.checkpoint(LAST).is_new
    with pytest.raises(SparkRequiredError):  # it is to be written
        log.checkpoint(LAST - 1)
