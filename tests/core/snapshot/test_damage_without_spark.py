"""Damaged checkpoints, on the driver. The driver writes the bases, so that these tests need no JVM."""

# ruff: noqa: F401

from __future__ import annotations

from tests.core.snapshot.test_damage import (
    forget_tables,
    test_damaged_checkpoint_without_fallback_is_named,
    test_frames_name_a_damaged_file_without_fallback,
    test_older_checkpoint_is_preferred_to_the_commits,
    test_store_is_written_despite_a_damaged_checkpoint,
    test_store_names_its_own_damaged_file,
)
from tests.driver_bases import spark
