"""The failures of Spark that are damage, and their messages; without Spark."""

from __future__ import annotations

from unittest.mock import Mock

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import AnalysisException, SparkRuntimeException

from deltasnap_core.errors import CorruptLogError, CorruptStoreError, StorageError, UnsupportedServerError
from deltasnap_core.replay.spark.session.spark_failures import spark_cause, translated
from deltasnap_core.rules.totals.aggregates import MissingSizeError

CHECKPOINT = "file:///t/_delta_log/00000000000000000010.checkpoint.parquet"
SIDECAR = "s3://lake/t/_delta_log/_sidecars/a b.parquet"
STORED = "file:///store/t/base/part-0.parquet"
READ_FAILURE = """org.apache.spark.SparkException: [FAILED_READ_FILE.NO_HINT] Encountered error while reading file {}.  SQLSTATE: KD001
\tat org.apache.spark.sql.errors.QueryExecutionErrors$.cannotReadFilesError(QueryExecutionErrors.scala:920)
Caused by: java.io.IOException: could not decode the dictionary
\tat org.apache.parquet.X
Caused by: java.io.IOException: FAILED_TO_UNCOMPRESS(5)
\t... 21 more"""  # noqa: E501


class JavaError(Py4JJavaError):  # type: ignore[misc]
    """Py4J gets the text from the JVM, which is missing here."""

    def __init__(self, text: str) -> None:
        super().__init__("An error occurred while calling o1.collectToPython.", Mock(_target_id="o2"))
        self.text = text

    def __str__(self) -> str:
        return f"An error occurred while calling o1.collectToPython.\n: {self.text}"


def raised(error: Exception) -> CorruptLogError | CorruptStoreError:
    with pytest.raises((CorruptLogError, CorruptStoreError)) as found, translated([CHECKPOINT, SIDECAR], [STORED]):
        raise error
    assert found.value.__cause__ is error
    assert isinstance(found.value, CorruptLogError | CorruptStoreError)
    return found.value


@pytest.mark.parametrize(
    ("named", "path", "kind"),
    [
        (CHECKPOINT, CHECKPOINT, CorruptLogError),
        ("s3a://lake/t/_delta_log/_sidecars/a%20b.parquet", SIDECAR, CorruptLogError),
        ("file:///tmp/copies/a b.parquet", SIDECAR, CorruptLogError),
        (STORED, STORED, CorruptStoreError),
    ],
    ids=["the file itself", "a name escaped", "a copy", "of the store"],
)
def test_file_that_spark_cannot_read_is_named(named: str, path: str, kind: type[Exception]) -> None:
    error = raised(JavaError(READ_FAILURE.format(named)))
    assert (type(error), error.path) == (kind, path)
    assert error.reason == "Spark cannot read it: IOException: FAILED_TO_UNCOMPRESS(5)"


def test_failures_of_planning_and_of_a_copy_are_also_damage() -> None:
    gone = AnalysisException(f"[PATH_NOT_FOUND] Path does not exist: {CHECKPOINT}. SQLSTATE: 42K03")
    assert raised(gone).path == CHECKPOINT
    assert raised(FileNotFoundError(f"No such file: {SIDECAR}")).path == SIDECAR
    assert raised(MissingSizeError("expected add.size to be an integer, found null")).path == CHECKPOINT


@pytest.mark.parametrize(
    "error",
    [
        SparkRuntimeException("[USER_RAISED_EXCEPTION] boom"),
        JavaError("java.lang.IllegalStateException: Cannot call methods on a stopped SparkContext."),
        JavaError("org.apache.spark.SparkException: Job 3 cancelled"),
    ],
    ids=["raised by a query", "a stopped session", "a cancelled job"],
)
def test_other_failures_are_unchanged(error: Exception) -> None:
    with pytest.raises(type(error)), translated([CHECKPOINT]):
        raise error


def test_failure_is_condensed_to_one_short_line() -> None:
    assert (
        spark_cause(JavaError("java.lang.IllegalStateException: no\n\tat a.b(C.java)")) == "IllegalStateException: no"
    )
    assert spark_cause(SparkRuntimeException("[USER_RAISED_EXCEPTION] boom\n\nJVM stacktrace:\nx")) == (
        "[USER_RAISED_EXCEPTION] boom"
    )
    gone = (
        "<_InactiveRpcError of RPC that terminated with:\n\tstatus = StatusCode.UNAVAILABLE\n"
        '\tdetails = "failed to connect to all addresses"\n\tdebug_error_string = "UNKNOWN: ..."\n>'
    )
    assert spark_cause(SparkRuntimeException(gone)) == "failed to connect to all addresses"
    assert spark_cause(ValueError("x" * 300)) == "x" * 300
    assert spark_cause(ValueError("x" * 301)) == "x" * 300 + " ..."
    assert spark_cause(ValueError()) == "ValueError"


def test_value_missing_in_the_dictionary_is_damage_of_the_first_file() -> None:
    text = """org.apache.spark.SparkException: Job aborted due to stage failure
\tat org.apache.spark.sql.execution.datasources.parquet.ParquetDictionary.decodeToBinary(ParquetDictionary.java:71)
Caused by: java.lang.ArrayIndexOutOfBoundsException: Index 64 out of bounds for length 1"""
    error = raised(JavaError(text))
    assert (type(error), error.path) == (CorruptLogError, CHECKPOINT)
    assert "Index 64 out of bounds" in error.reason


OF_THE_ENVIRONMENT = {
    "brotli": ("java.lang.ClassNotFoundException: org.apache.hadoop.io.compress.BrotliCodec", UnsupportedServerError),
    "lzo": (
        "BadConfigurationException: Class com.hadoop.compression.lzo.LzoCodec was not found",
        UnsupportedServerError,
    ),
    "lz4": ("java.lang.RuntimeException: native lz4 library not available", UnsupportedServerError),
    "snappy": (
        "java.lang.NoClassDefFoundError: Could not initialize class org.xerial.snappy.Snappy",
        UnsupportedServerError,
    ),
    "zstd": ("java.lang.UnsatisfiedLinkError: no zstd-jni-1.5.7 in java.library.path", UnsupportedServerError),
    "denied": ("java.io.FileNotFoundException: /t/x.parquet (Permission denied)", StorageError),
    "denied by S3": ("java.nio.file.AccessDeniedException: s3a://lake/t: 403 Forbidden", StorageError),
}


@pytest.mark.parametrize(("cause", "kind"), OF_THE_ENVIRONMENT.values(), ids=OF_THE_ENVIRONMENT.keys())
def test_failure_of_the_environment_does_not_call_the_file_corrupt(cause: str, kind: type[Exception]) -> None:
    text = READ_FAILURE.format(CHECKPOINT).replace("java.io.IOException: FAILED_TO_UNCOMPRESS(5)", cause)
    with pytest.raises(kind) as found, translated([CHECKPOINT], [STORED]):
        raise JavaError(text)
    assert CHECKPOINT in str(found.value)
    assert "orrupt" not in str(found.value)
