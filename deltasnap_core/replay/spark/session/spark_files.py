"""Makes files readable for a Spark session without a connector for their storage.

For example, PySpark from PyPI has no connector for S3.
"""

from __future__ import annotations

import atexit
import hashlib
import logging
import os
import shutil
import tempfile
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrameReader, SparkSession

from deltasnap_core.redaction import logger_of
from deltasnap_core.replay.sessions import SparkProvider
from deltasnap_core.storage.concurrency import map_concurrently
from deltasnap_core.storage.fsspec_log_store import FsspecLogStore, filesystem_of
from deltasnap_core.storage.log_store import FileStatus
from deltasnap_core.storage.retries import retrying
from deltasnap_core.storage.urls import is_hidden, is_local, join_url, local_path, split_url, to_url

_log = logger_of(__name__)

_NOT_THERE = "PATH_NOT_FOUND"

# URL schemes that Hadoop names differently.
_HADOOP_SCHEMES = {"s3": "s3a"}


class SparkFiles:
    """Returns, for any URL, one that Spark can read: the URL itself, or that of a local copy.

    Each version of a file (URL, size, modification time) is copied once: files of a log or a store never change. The
    copies stay in a temporary folder until the process ends, because a DataFrame may read them until then. Spark can
    read them only on this machine; on another machine, it needs a connector for the storage. Threads may share an
    instance.

    Spark skips a file with a hidden name, such as a sidecar `_a.parquet`. It gets a copy with another name.
    """

    def __init__(self, storage_options: Mapping[str, Any] | None, can_read: Callable[[str], bool]) -> None:
        """Create an instance.

        can_read: whether Spark has a connector for the filesystem of a URL, given in Spark's form. It is called once
                  for each scheme and bucket, with the first URL there. That file may not exist yet.
        """
        self._store = FsspecLogStore(storage_options)
        self._can_read = can_read
        self._known: dict[str, bool] = {}
        self._lock = threading.Lock()
        self._folder: Path | None = None

    @classmethod
    def of(cls, storage_options: Mapping[str, Any] | None, sessions: SparkProvider) -> SparkFiles:
        """Return an instance for the session of a provider."""
        return cls(storage_options, lambda url: can_read(sessions.session("files that Spark reads"), url))

    @property
    def storage_options(self) -> Mapping[str, Any]:
        """The options for fsspec, as given."""
        return self._store.storage_options

    def url_for_spark(self, url: str) -> str:
        """Return a URL in Spark's form, whether or not Spark can read it."""
        scheme, _, rest = url.partition(":")
        return f"{_HADOOP_SCHEMES.get(scheme, scheme)}:{rest}"

    def is_direct(self, url: str) -> bool:
        """Return whether Spark reads and writes the URL directly, by its `url_for_spark`."""
        if is_local(url):
            return True
        spark_url = self.url_for_spark(url)
        root = "/".join(spark_url.split("/", 3)[:3])
        with self._lock:
            if root not in self._known:
                self._known[root] = self._can_read(spark_url)
                if not self._known[root]:
                    _log.info("Spark cannot read %s itself: files are copied here as they are needed", root)
            return self._known[root]

    def readable(self, files: Iterable[str | FileStatus]) -> list[str]:
        """Return, for each file, a URL that Spark can read, in the order given. Copies the file if needed.

        A FileStatus saves a request for size and time.
        Errors: FileNotFoundError.
        """
        return map_concurrently(self._readable, files)

    def upload(self, local_folder: str | os.PathLike[str], url: str) -> tuple[str, ...]:
        """Copy the files that Spark wrote into a local folder to the folder `url`. Return their URLs, sorted.

        Skips files that start with a dot or an underscore: Spark and Hadoop use those internally.
        """
        root = Path(local_folder)
        names = [path.relative_to(root).as_posix() for path in sorted(root.rglob("*")) if path.is_file()]
        names = [name for name in names if not name.rpartition("/")[2].startswith((".", "_"))]
        return tuple(map_concurrently(lambda name: self._put(root / name, join_url(url, name)), names))

    def _put(self, file: Path, target: str) -> str:
        filesystem, fs_path = filesystem_of(target, self.storage_options)
        retrying(lambda: filesystem.makedirs(split_url(fs_path)[0], exist_ok=True))
        retrying(lambda: filesystem.put_file(str(file), fs_path))
        return target

    def _readable(self, file: str | FileStatus) -> str:
        url = file if isinstance(file, str) else file.path
        is_direct = not is_hidden(url) and self.is_direct(url)
        return self.url_for_spark(url) if is_direct else to_url(self._copy(file))

    def _copy(self, file: str | FileStatus) -> Path:
        status = self._store.status(file) if isinstance(file, str) else file
        if status is None:
            raise FileNotFoundError(f"No such file: {file}")
        facts = f"{status.path}\n{status.size}\n{status.modification_time}"
        # Keep the name: it shows the format, and errors state it. The folder separates files of the same name.
        name = f"copy-{status.name}.parquet" if is_hidden(status.path) else status.name
        copy = self._cache_folder() / hashlib.sha256(facts.encode()).hexdigest()[:32] / name
        if not copy.exists():
            copy.parent.mkdir(exist_ok=True)
            self._download(status.path, copy)
        return copy

    def _download(self, url: str, copy: Path) -> None:
        if is_local(url):
            with suppress(OSError):  # another filesystem, or a file of another user: copied below
                # Linking a symbolic link would create another symbolic link, perhaps a dangling one.
                os.link(Path(local_path(url)).resolve(), copy)
                return
        filesystem, fs_path = filesystem_of(url, self.storage_options)
        handle, partial = tempfile.mkstemp(dir=copy.parent, prefix=".")
        os.close(handle)
        try:
            retrying(lambda: filesystem.get_file(fs_path, partial))
            Path(partial).replace(copy)  # atomic: two threads may copy the same file
        finally:
            Path(partial).unlink(missing_ok=True)

    def _cache_folder(self) -> Path:
        with self._lock:
            if self._folder is None:
                self._folder = Path(tempfile.mkdtemp(prefix="deltasnap-files-"))
                atexit.register(shutil.rmtree, self._folder, ignore_errors=True)
            return self._folder


NAMED_FILES = {
    # A table's folder may be named `a{b}` or `c[d]`: treat paths as names, not as patterns.
    "__globPaths__": "false",
    # A session may skip files that are damaged or gone: their actions or rows would be lost.
    "ignoreCorruptFiles": "false",
    "ignoreMissingFiles": "false",
    # Or files whose names match a pattern. This is Spark's default.
    "ignoredPathSegmentRegex": "^[._]",
}
"""Options of a read of exactly the named files."""

_PLAIN_FILES = {
    **NAMED_FILES,
    # Hadoop checks a local file against a checksum file, `.<name>.crc`, that only Hadoop uses. If it is stale, Spark
    # refuses a sound file. The cache is disabled because the cached filesystem instance belongs to the session.
    "fs.file.impl": "org.apache.hadoop.fs.RawLocalFileSystem",
    "fs.file.impl.disable.cache": "true",
    # If the writer stored page checksums, a flipped byte raises an error and does not become another value.
    "parquet.page.verify-checksum.enabled": "true",
    # A session may shift old dates of files that Spark 2 wrote, or refuse them. Spark notes in its own files if they
    # have such dates, and other writers have none.
    "datetimeRebaseMode": "CORRECTED",
    "int96RebaseMode": "CORRECTED",
}


def file_reader(spark: SparkSession) -> DataFrameReader:
    """Return a reader for files of a log or a store. It takes paths literally, and reads each file as it is.

    These are options of a single read. They change nothing in the session, so they also work on Spark Connect.
    """
    return spark.read.options(**_PLAIN_FILES)


def can_read(spark: SparkSession, url: str) -> bool:
    """Return whether the session can reach the filesystem of a URL. The file need not exist. Starts no Spark job.

    False if the session has no connector for the filesystem, or no credentials.
    """
    try:
        with _unlogged():
            _ = file_reader(spark).text(url).schema
    except (PySparkException, Py4JJavaError) as error:
        return isinstance(error, PySparkException) and error.getCondition() == _NOT_THERE
    return True


@contextmanager
def _unlogged() -> Iterator[None]:
    """Suppress the errors that Spark Connect's client logs: a failed probe is an answer."""
    client = logging.getLogger("pyspark.sql.connect.logging")
    before, client.disabled = client.disabled, True
    try:
        yield
    finally:
        client.disabled = before
