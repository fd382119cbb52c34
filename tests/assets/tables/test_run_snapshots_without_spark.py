"""The reads of a run. The driver writes the bases, so that these tests need no JVM."""

# ruff: noqa: F401

from __future__ import annotations

from tests.assets.tables.test_run_snapshots import (
    requested,
    test_rolled_back_table_is_logged_in_the_run,
    test_run_finds_new_commits_dated_in_the_future,
    test_run_finds_the_faults_of_the_commits_that_it_stores_without_reading_them_again,
    test_run_lists_log_and_store_twice_and_reads_each_commit_once,
    test_versions_lost_in_the_log_come_from_the_store,
    test_warning_about_an_old_commit_is_repeated_by_runs_that_read_only_new_ones,
)
from tests.driver_bases import spark
