"""Translates failures inside Spark to the errors of this package: damaged pages, missing files, values of a wrong type.

All queries of the core run within `translated`: if Spark cannot read a file, it raises CorruptLogError or
CorruptStoreError naming the file. `Fallback` then uses an older checkpoint or the commits alone.
DataFrames that are returned to users run elsewhere: see Snapshot.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from urllib.parse import quote

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

from deltasnap_core.errors import CorruptLogError, CorruptStoreError, StorageError, UnsupportedServerError
from deltasnap_core.redaction import redacted
from deltasnap_core.rules.file_actions import ONE_ACTION
from deltasnap_core.rules.totals.aggregates import MissingSizeError

SPARK_FAILURES = (PySparkException, Py4JJavaError)
"""The exceptions of Spark, in one process or over Connect."""

_NAMES_FILES = re.compile(
    r"FAILED_READ_FILE|CANNOT_READ_FILE_FOOTER|PATH_NOT_FOUND|MALFORMED_RECORD_IN_PARSING"
    r"|CANNOT_MERGE_SCHEMAS|FAILED_READ_SCHEMA|PARQUET_TYPE|ParquetDecodingException|is not a Parquet file"
    rf"|expected {ONE_ACTION}"
    # Decoding errors after the file was read. Our queries never index into arrays.
    r"|ArrayIndexOutOfBoundsException|NegativeArraySizeException|datasources\.parquet\.(?:Vectorized|ParquetDictionary)"
)
_NAMES_STORAGE = re.compile(
    r"ParentNotDirectoryException|FileAlreadyExistsException|AccessControlException|AccessDeniedException|Mkdirs failed"
    r"|Permission denied|Read-only file system|No space left on device|Disk quota exceeded"
)
# A codec whose classes or native library this Spark lacks. The file may be sound.
_NAMES_CODEC = re.compile(
    r"ClassNotFoundException: \S*Codec\b|Class \S*Codec was not found|native \S+ library not available"
    r"|(?:UnsatisfiedLinkError|NoClassDefFoundError|ExceptionInInitializerError)[^\n]*(?:snappy|zstd|lz4|lzo|brotli)"
    r"|Disabled feature at compile time: \w+",
    re.IGNORECASE,
)
_NAMES_ACCESS = re.compile(r"AccessControlException|AccessDeniedException|Permission denied|No space left on device")
# Errors of evaluating an expression: data exceptions, violated constraints, texts that cannot be parsed, `assert_true`
# (unless a query of ours raises it), and errors without an SQLSTATE.
_NAMES_VALUES = re.compile(
    r"SQLSTATE: (?:22|23|42601)|USER_RAISED_EXCEPTION\] (?!deltasnap: )"
    r"|PatternSyntaxException|Illegal sequence boundaries"
)
_FILE_READ = re.compile(r"error while reading file (\S+?)\.(?=\s|$)")
_REFUSES_DATES = re.compile(r'READ_ANCIENT_DATETIME\].*?SQL config "([\w.]+)"', re.DOTALL)
_CAUSE = re.compile(r"^Caused by: (.+)$", re.MULTILINE)
_GRPC_DETAILS = re.compile(r'^\s*details = "(.+)"$', re.MULTILINE)  # from a Connect server that has stopped
_JAVA_PACKAGE = re.compile(r"^(?:[a-z][\w]*\.)+(?=[A-Z])")
_LONGEST = 300


@contextmanager
def translated(log_files: Iterable[str] = (), stored_files: Iterable[str] = ()) -> Iterator[None]:
    """Raise CorruptLogError or CorruptStoreError for a file that Spark cannot read. Other exceptions are not changed.

    If the file may be sound, it raises UnsupportedServerError for a codec that this Spark lacks, or StorageError for a
    file that it must not read.
    log_files, stored_files: the files (URLs) that the queries read, of a log and of a snapshot store.
    """
    try:
        yield
    except (*SPARK_FAILURES, FileNotFoundError, MissingSizeError) as error:
        text = str(error)
        if isinstance(error, SPARK_FAILURES) and not is_about_files(error):
            raise
        log, stored = tuple(log_files), tuple(stored_files)
        if not log and not stored:
            raise
        path = next((file for file in (*log, *stored) if _is_named(file, text)), (*log, *stored)[0])
        if _NAMES_CODEC.search(text):
            needed = "a Spark with this codec, or write the file with another one, such as snappy"
            work = f"decompress {redacted(path)}"
            raise UnsupportedServerError(
                server="Spark", work=work, reason=f"it cannot read this codec: {spark_cause(error)}", needed=needed
            ) from error
        if _NAMES_ACCESS.search(text):
            raise StorageError(path=path, reason=f"Spark cannot read it: {spark_cause(error)}") from error
        corrupt = CorruptLogError if path in log else CorruptStoreError
        raise corrupt(path=path, reason=f"Spark cannot read it: {spark_cause(error)}") from error


def is_about_files(error: BaseException) -> bool:
    """Return whether a failure inside Spark is caused by reading a file."""
    return _NAMES_FILES.search(str(error)) is not None


def is_about_values(error: BaseException) -> bool:
    """Return whether a failure inside Spark is caused by an expression that fails for some row, not by a file."""
    return _NAMES_VALUES.search(str(error)) is not None and file_read(error) is None


@contextmanager
def storing(target: str) -> Iterator[None]:
    """Raise StorageError if Spark cannot write to a folder (a URL). Other exceptions are not changed."""
    try:
        yield
    except SPARK_FAILURES as error:
        if not _NAMES_STORAGE.search(str(error)):
            raise
        raise StorageError(
            path=target,
            reason=f"Spark cannot write there: {spark_cause(error)}. Check that you may write to this folder",
        ) from error


def file_read(error: BaseException) -> str | None:
    """Return the URL of the file that Spark was reading when it failed; None: it names none."""
    found = _FILE_READ.search(str(error))
    return None if found is None else found[1]


def setting_that_refuses_dates(error: BaseException) -> str | None:
    """Return the setting with which Spark refuses to read old dates and times; None: this is not the failure."""
    found = _REFUSES_DATES.search(str(error))
    return None if found is None else found[1]


def spark_cause(error: BaseException, *, with_file: bool = False) -> str:
    """Return the cause of a failure in one line, without the JVM's stack trace.

    with_file: whether to add the file that Spark was reading.
    Example: `IOException: FAILED_TO_UNCOMPRESS(5)`.
    """
    if with_file and (file := file_read(error)):
        return f"{spark_cause(error)} (in {file})"
    text = str(error)
    if causes := _CAUSE.findall(text) or _GRPC_DETAILS.findall(text):
        line = causes[-1]
    else:
        text = text.removeprefix("An error occurred while calling ") if isinstance(error, Py4JJavaError) else text
        lines = text.splitlines()
        line = next((line for line in lines if line.startswith(": ")), lines[0] if lines else type(error).__name__)
    line = _JAVA_PACKAGE.sub("", line.removeprefix(": ").strip())
    return line if len(line) <= _LONGEST else f"{line[:_LONGEST]} ..."


def _is_named(file: str, text: str) -> bool:
    name = file.rpartition("/")[2]
    return name in text or quote(name) in text
