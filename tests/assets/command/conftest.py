"""Fixtures of the tests of the commands."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import tests.assets.command.fast_typer  # noqa: F401
from deltasnap_core import DeltaLog


@pytest.fixture(autouse=True)
def no_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """The output of commands is as wide as a table, whatever the environment of the tests says."""
    for name in ("COLUMNS", "FORCE_COLOR", "TTY_COMPATIBLE"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def session(spark: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Commands use the session of the tests."""
    monkeypatch.setattr("deltasnap_assets.spark.session.run_session.RunSession._start", lambda self, reason: spark)
    yield spark
    DeltaLog.clear_cache()
