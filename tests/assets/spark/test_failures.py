"""Spark's failures as shown to users."""

from __future__ import annotations

import pytest
from pyspark.errors import PySparkRuntimeError, SparkRuntimeException

from deltasnap_assets.spark.session import failures
from deltasnap_assets.spark.session.failures import starting_spark, using_spark
from deltasnap_core import DeltaSnapError

LONG = "Job aborted due to stage failure\n" + "\tat org.apache.spark.X(X.scala:1)\n" * 500
CAUSE = "Caused by: org.apache.spark.SparkException: Total size of serialized results is bigger than maxResultSize"


def test_failure_is_one_line_with_table_and_cause() -> None:
    with pytest.raises(DeltaSnapError) as raised, using_spark("events"):
        raise SparkRuntimeException(LONG + CAUSE)
    assert str(raised.value) == (
        "Spark failed on table events: SparkException: Total size of serialized results is bigger than maxResultSize"
    )


def test_failure_names_the_data_file_that_spark_was_reading() -> None:
    with (
        pytest.raises(DeltaSnapError, match=r"maxResultSize \(in file:///t/a%20b\.parquet\)$"),
        using_spark("events"),
    ):
        raise SparkRuntimeException(f"Encountered error while reading file file:///t/a%20b.parquet. KD001\n{CAUSE}")


def test_session_that_does_not_start_names_its_log(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(failures, "check_java", lambda: 17)
    with pytest.raises(DeltaSnapError, match=r"did not start: .*spark\.config"), starting_spark():
        raise PySparkRuntimeError(errorClass="JAVA_GATEWAY_EXITED", messageParameters={})
