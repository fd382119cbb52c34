"""Delta's session properties as defaults, on a session that has only a conf."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from deltasnap_core import DeltaLog, SnapshotOptions
from deltasnap_core.replay.sessions import GivenSession
from deltasnap_core.snapshot.session_properties import staleness_limit_ms, with_session_defaults
from tests.builders import TABLE_PATH, MemoryLogStore

PREFIX = "spark.databricks.delta."


def session(**properties: str) -> Any:
    """Return a provider of a session with properties: `session(stalenessLimit="1h")`; `_` stands for a dot."""
    values = {PREFIX + name.replace("_", "."): value for name, value in properties.items()}
    conf: Any = SimpleNamespace(get=lambda name, default=None: values.get(name, default))
    return GivenSession(cast("Any", SimpleNamespace(conf=conf)))


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [
        ("0", 0),
        ("1500", 1500),
        ("20ms", 20),
        ("2999us", 2),
        ("30s", 30_000),
        ("5m", 300_000),
        ("5min", 300_000),
        (" 1H ", 3_600_000),
        ("2d", 172_800_000),
    ],
)
def test_staleness_limit_is_a_spark_time_string(text: str, milliseconds: int) -> None:
    assert staleness_limit_ms(session(stalenessLimit=text)) == milliseconds


@pytest.mark.parametrize("text", ["", "-1s", "1 week", "1.5h", "soon"])
def test_invalid_staleness_limit_raises_an_error_that_names_the_property(text: str) -> None:
    with pytest.raises(ValueError, match=r"spark\.databricks\.delta\.stalenessLimit: expected a time"):
        staleness_limit_ms(session(stalenessLimit=text))


def test_options_default_to_the_session() -> None:
    assert with_session_defaults(session(snapshotPartitions="1"), SnapshotOptions()).snapshot_partitions == 1
    spark = session(stateReconstructionValidation_enabled="False", snapshotPartitions="7")
    resolved = with_session_defaults(spark, SnapshotOptions())
    assert (resolved.validate_state, resolved.snapshot_partitions) == (False, 7)
    resolved = with_session_defaults(spark, SnapshotOptions(validate_state=True, snapshot_partitions=2))
    assert (resolved.validate_state, resolved.snapshot_partitions) == (True, 2)


def test_session_without_properties_keeps_the_defaults_of_delta() -> None:
    for spark in (GivenSession(None), session()):
        resolved = with_session_defaults(spark, SnapshotOptions())
        assert (resolved.validate_state, resolved.snapshot_partitions) == (True, None)
        assert staleness_limit_ms(spark) == 0


@pytest.mark.parametrize(
    ("name", "text"),
    [("stateReconstructionValidation_enabled", "yes"), ("snapshotPartitions", "0"), ("snapshotPartitions", "many")],
)
def test_invalid_property_raises_an_error_that_names_it(name: str, text: str) -> None:
    with pytest.raises(ValueError, match=name.replace("_", r"\.")):
        with_session_defaults(session(**{name: text}), SnapshotOptions())


def test_table_opened_in_the_session_follows_its_properties() -> None:
    spark, now = session(stalenessLimit="1h"), iter([10**12, *[10**12 + 1000] * 9])
    log = DeltaLog.for_table(spark, TABLE_PATH, clock=lambda: next(now), store=MemoryLogStore())
    try:
        assert log.update().version == -1
        assert not log.is_snapshot_stale
    finally:
        DeltaLog.clear_cache()
