"""The first life of the demo table, which needs no Spark. See test_demo_run for its later life."""

# ruff: noqa: F401

from __future__ import annotations

from tests.assets.command.test_demo_run import (
    table,
    test_appends_carry_their_application_transaction,
    test_checkpoint_has_log_activity_after_it,
    test_first_life_has_every_kind_of_commit,
    test_first_life_overwrites_the_table_and_restores_files,
)
