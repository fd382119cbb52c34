"""The reads of a run. The driver writes the bases, so that these tests need no JVM."""

# ruff: noqa: F401

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from deltasnap_assets.checks.compaction import Compaction
from deltasnap_assets.settings.config import Settings, TableSettings
from deltasnap_assets.spark.session.run_session import PlainSession, RunSession
from deltasnap_assets.tables.run_snapshots import RunSnapshots
from tests.assets.checks.known import partitions
from tests.assets.checks.test_small_files import candidate
from tests.assets.tables.test_metadata import state
from tests.assets.tables.test_run_snapshots import (
    test_rolled_back_table_is_logged_in_the_run,
    test_run_finds_new_commits_dated_in_the_future,
    test_run_finds_the_faults_of_the_commits_that_it_stores_without_reading_them_again,
    test_run_lists_log_and_store_twice_and_reads_each_commit_once,
    test_versions_lost_in_the_log_come_from_the_store,
    test_warning_about_an_old_commit_is_repeated_by_runs_that_read_only_new_ones,
)
from tests.core.store.format.test_manifest import BASE, FILE, MANIFEST
from tests.driver_bases import spark

SESSION = RunSession(PlainSession({}))
TABLE = TableSettings(name="events", path="/events")


@pytest.mark.parametrize(("base", "changes", "is_exact"), [(40_000, 10_000, True), (40_000, 10_001, False)])
def test_effect_of_optimize_is_exact_up_to_fifty_thousand_files(base: int, changes: int, is_exact: bool) -> None:
    candidates = [candidate("1", 8, 1)]
    of_base, of_changes = replace(FILE, rows=base), replace(FILE, rows=changes)
    later = replace(MANIFEST.changes[0], files=(of_changes,))
    manifest = replace(MANIFEST, base=replace(BASE, files=(of_base,)), changes=(later,))

    store = SimpleNamespace(optimize_candidates=lambda *of: candidates if of == ("events", manifest) else [])
    of_seven, facts = SimpleNamespace(version=state()), SimpleNamespace(files=partitions(*[1000] * 3))
    snapshots: Any = RunSnapshots(Settings(tables=(TABLE,)), SESSION)
    snapshots.versions = SimpleNamespace(
        store=store,
        manifests=lambda *of: {7: manifest} if of == ("events", [7]) else {},
        states=lambda *of: {7: of_seven.version} if of == ("events", [7]) else {},
    )
    snapshots.facts = SimpleNamespace(of=lambda *of: facts if of == ("events", 7) else None)
    found = snapshots.compaction(TABLE, 7)
    assert found == (Compaction.exact(candidates) if is_exact else None)  # a file for each partition
    known = partitions(1000)
    facts.files = replace(known, partitions=(replace(known.partitions[0], num_files=5),))
    found = snapshots.compaction(TABLE, 7)
    assert found is not None
    assert (found.is_exact, found.partitions[0].files_after) == (is_exact, 1)
    of_seven.version = state(metadata=None)
    assert (snapshots.compaction(TABLE, 7) is not None) == is_exact
