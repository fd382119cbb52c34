"""Whether the next refresh needs Spark, predicted from the stored versions."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import pytest

from deltasnap_assets.settings.config import Settings, SparkSettings
from deltasnap_assets.settings.table_settings import TableSettings
from deltasnap_assets.spark.session.needed import reason_for_spark
from deltasnap_core import DeltaLog, SnapshotStore
from deltasnap_core.replay import engine
from tests.builders import add, metadata, protocol, write_log
from tests.driver_bases import use_driver_bases


@pytest.fixture(autouse=True)
def log(tmp_path: Path) -> Path:
    return write_log(tmp_path / "events", {0: [protocol(), metadata(), add("a"), add("b")]})


def settings_of(
    folder: Path, use: Literal["auto", "always"] = "auto", kind: Literal["view", "table"] = "view"
) -> Settings:
    table = TableSettings(name="events", path=str(folder / "events"), materialize_as=kind)
    return Settings(storage=str(folder / "store"), tables=(table,), spark=SparkSettings(use=use))


def test_table_without_stored_versions_needs_spark(tmp_path: Path) -> None:
    reason = reason_for_spark(settings_of(tmp_path))
    assert reason == "table events: a version stored in full: always on Spark"


def test_rows_of_every_version_are_written_by_spark(tmp_path: Path) -> None:
    assert "materialize_as" in str(reason_for_spark(settings_of(tmp_path, kind="table")))


@pytest.mark.parametrize("kind", ["view", "table"])
def test_table_that_does_not_exist_needs_no_spark(tmp_path: Path, log: Path, kind: Literal["view", "table"]) -> None:
    (log / f"{0:020}.json").unlink()
    assert reason_for_spark(settings_of(tmp_path, kind=kind)) is None


def test_followed_table_needs_spark_only_if_large(tmp_path: Path, log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    use_driver_bases(monkeypatch)
    write_log(log.parent, {1: [add("c")]})
    read = DeltaLog.for_table(None, tmp_path / "events")
    SnapshotStore.open(None, tmp_path / "store").write_range("events", read, 0, 1)
    assert reason_for_spark(settings_of(tmp_path)) is None
    assert "the engine is set to Spark" in str(reason_for_spark(settings_of(tmp_path, "always")))
    rows = engine.Limit(most=2, unit="rows", driver="", spark="")
    monkeypatch.setattr(engine, "LIMITS", {**engine.LIMITS, engine.Question.COUNT: rows})
    assert "3 rows, more than 2" in str(reason_for_spark(settings_of(tmp_path)))
