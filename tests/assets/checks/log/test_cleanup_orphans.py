"""The check `cleanup_orphans`."""

from __future__ import annotations

from typing import Any

import pytest

from deltasnap_assets.checks.check import Verdict
from deltasnap_assets.checks.check_settings import CheckSettings
from deltasnap_assets.checks.registry import CLEANUP_ORPHANS
from deltasnap_core.log.listing.log_listing import list_log
from tests.assets.checks.known import KnownTableFacts
from tests.builders import FIRST_COMMIT_MS, LOG_PATH, MemoryLogStore, checkpoint, commits

DAY_MS = 24 * 3600 * 1000
MIDNIGHT_MS = FIRST_COMMIT_MS // DAY_MS * DAY_MS + DAY_MS
FIRST = 2
"""The first version after midnight of the day after which the log is cleaned up 30 days later."""


def verdict(*checkpoints: int, **facts: Any) -> Verdict:
    """Return the verdict for ten commits, two of them before the retention."""
    files = [commits(0, 9), *map(checkpoint, checkpoints)]
    listing = list_log(MemoryLogStore(*files), LOG_PATH)
    shift = MIDNIGHT_MS - listing.commits[FIRST].modification_time + 1
    moved = [
        [type(file)(path=file.path, size=file.size, modification_time=file.modification_time + shift) for file in group]
        for group in files
    ]
    listing = list_log(MemoryLogStore(*moved), LOG_PATH)
    known = KnownTableFacts(listing=listing, now_ms=MIDNIGHT_MS + 30 * DAY_MS, **facts)
    return CLEANUP_ORPHANS.judge(known, CheckSettings())


def test_versions_without_a_base_are_named_with_the_command_that_keeps_them() -> None:
    found = verdict(7)
    assert (found.passed, found.numbers) == (False, {"cleanup_orphans": 5})
    assert "versions 2 to 6 unreadable" in found.description
    assert "`deltasnap checkpoint PATH --version 2`" in found.advice
    assert CLEANUP_ORPHANS.severity_of(found) == "warning"


def test_checkpoint_at_the_right_version_passes() -> None:
    assert verdict(FIRST).passed


ENGINES = {
    "Apache-Spark/3.5.1 Delta-Lake/3.2.0": False,
    "Apache-Spark/4.0.0 Delta-Lake/4.0.0": False,
    "Apache-Spark/4.0.0 Delta-Lake/4.0.1": True,
    "Apache-Spark/4.1.0 Delta-Lake/4.10.0": True,
    "delta-rs:py-1.6.6": True,
    "delta-rs:py-0.25.5": False,
    "Databricks-Runtime/15.4": False,
}


@pytest.mark.parametrize("engine", ENGINES)
def test_writer_that_keeps_the_checkpoint_passes(engine: str) -> None:
    assert verdict(engine=engine).passed is ENGINES[engine]


def test_table_that_is_never_cleaned_up_passes() -> None:
    assert verdict(configuration={"delta.enableExpiredLogCleanup": "false"}).passed
