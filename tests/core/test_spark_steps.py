"""The steps of the DataFrames of the core are those that the tests on Spark have covered."""

from __future__ import annotations

import pytest

from tests.core.spark_steps import BUILDS_WITHOUT_SESSION, EXPECTED, as_text


def test_code_makes_its_frames_in_the_recorded_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(BUILDS_WITHOUT_SESSION, "1")
    assert as_text().splitlines() == EXPECTED.read_text(encoding="utf-8").splitlines()
