"""Versions of which no checkpoint is written. They are rejected before a session is needed."""

# ruff: noqa: F401

from __future__ import annotations

from tests.core.snapshot.test_checkpoint_writer import (
    forget_tables,
    test_invalid_schema_is_an_error,
    test_unknown_writer_features_are_rejected_by_name,
    test_unknown_writer_version_is_rejected,
    test_version_with_checkpoint_is_not_written_again,
    test_wrong_checksum_does_not_allow_what_the_protocol_forbids,
)
from tests.driver_bases import spark
