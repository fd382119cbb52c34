"""Forks of a log. The driver writes the bases, so that these tests need no JVM."""

# ruff: noqa: F401

from __future__ import annotations

from tests.core.store.test_store_forks import (
    store,
    table,
    test_another_table_with_fewer_versions_was_recreated_and_lacks_the_stored_ones,
    test_commits_added_and_cleaned_up_concurrently_are_handled,
    test_gaps_cost_no_further_listing,
    test_log_replaced_at_any_step_commits_nothing,
    test_range_costs_the_same_requests_for_any_number_of_versions,
    test_rolled_back_log_with_nothing_to_write_is_recorded_without_spark,
)
from tests.driver_bases import spark
