"""Pages of broken tables. The driver writes the bases, so that these tests need no JVM."""

# ruff: noqa: F401

from __future__ import annotations

from tests.assets.tables.test_broken_tables import (
    test_checkpoint_that_lacks_a_file_is_found_when_its_version_is_stored,
    test_dropped_table_keeps_its_last_known_facts,
    test_gap_stores_loadable_versions_and_names_the_rest,
    test_unsupported_feature_fails_one_check_and_skips_other_checks,
)
from tests.driver_bases import spark
