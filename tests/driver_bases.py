"""Bases of stored versions, written by the driver in place of Spark: tests of what follows a base need no JVM."""

from __future__ import annotations

import pytest

from deltasnap_core.replay.engine import LIMITS, Question
from deltasnap_core.store.rows import driver_rows


def use_driver_bases(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the driver write bases, as for a person. All other work that needs Spark still raises SparkRequiredError."""
    monkeypatch.setitem(LIMITS, Question.RECONSTRUCT, LIMITS[Question.ROWS])
    monkeypatch.setattr(driver_rows, "ROWS_A_GROUP", 2)  # several, as of large versions


@pytest.fixture
def spark(monkeypatch: pytest.MonkeyPatch) -> None:
    """Replaces the session, for tests that need it only to write bases."""
    use_driver_bases(monkeypatch)
