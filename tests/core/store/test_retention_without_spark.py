"""What expires in a store. The driver writes the bases, so that these tests need no JVM."""

# ruff: noqa: F401

from __future__ import annotations

from tests.core.store.test_store_retention import (
    test_expired_transaction_stays_away_however_the_versions_were_divided_into_ranges,
    test_in_commit_timestamps_apply_from_the_enabling_version,
    test_nothing_expires_before_its_time_because_of_a_commit_dated_in_the_future,
)
from tests.driver_bases import spark
