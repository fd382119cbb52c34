"""The Spark session of the commands with PATH."""

from __future__ import annotations

from pathlib import Path

import pytest

from deltasnap_assets.command.table_on_spark import delta_log_of
from tests.builders import metadata, protocol, write_log


def test_command_with_a_path_warns_of_an_invalid_session(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    write_log(tmp_path / "events", {0: [protocol(), metadata()]})
    (tmp_path / "deltasnap.yaml").write_text("spark: {remote: nowhere}")
    monkeypatch.chdir(tmp_path)
    delta_log_of("events", {})
    assert "deltasnap.yaml:1: spark.remote: expected a Spark Connect address" in caplog.text
    assert "The default Spark session is used." in caplog.text
