"""Two writers of a store. The driver writes the bases, so that these tests need no JVM."""

# ruff: noqa: F401

from __future__ import annotations

from tests.core.store.test_store_races import (
    store,
    table,
    test_listing_older_than_the_store_does_not_roll_back,
    test_unknown_column_is_a_value_error_for_every_kind_of_rows,
    test_versions_of_a_generation_replaced_in_the_meantime_are_not_committed,
    test_versions_with_a_base_pruned_in_the_meantime_are_not_committed,
)
from tests.driver_bases import spark
