"""Tables and a store in a container of Azurite, Microsoft's emulator of Azure's storage.

Needs the extra `azure` and the program `azurite-blob` on the path (`npm install azurite`).
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import fsspec
import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from deltasnap_core import DeltaLog, ProblemKind, SnapshotStore, TableLog
from deltasnap_core.errors import StorageError
from deltasnap_core.storage import retries
from deltasnap_core.storage.fsspec_log_store import FsspecLogStore
from deltasnap_core.storage.writable_files import WritableFiles
from tests.assets.command.cli_builders import deltasnap

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

blob = pytest.importorskip("azure.storage.blob", reason="needs the extra azure")
pytest.importorskip("adlfs", reason="needs the extra azure")
AZURITE = shutil.which("azurite-blob")
pytestmark = pytest.mark.skipif(AZURITE is None, reason="needs azurite-blob on the path")

ACCOUNT, KEY = "lakehouse", "a2V5"


@pytest.fixture(scope="module")
def endpoint(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of an account with the container `lake`."""
    port = str(_free_port())
    options = ["--silent", "--skipApiVersionCheck", "--inMemoryPersistence", "--disableTelemetry", "--blobPort", port]
    env = {**os.environ, "AZURITE_ACCOUNTS": f"{ACCOUNT}:{KEY}"}
    server = subprocess.Popen([str(AZURITE), *options], env=env, cwd=tmp_path_factory.mktemp("azurite"))
    url = f"http://127.0.0.1:{port}/{ACCOUNT}"
    try:
        for _ in range(300):
            with suppress(OSError), socket.create_connection(("127.0.0.1", int(port))):
                break
            time.sleep(0.1)
        blob.BlobServiceClient.from_connection_string(_connection(url)).create_container("lake")
        yield url
    finally:
        server.terminate()
        server.wait()


@pytest.fixture
def options(endpoint: str) -> dict[str, str]:
    return {"connection_string": _connection(endpoint)}


def _connection(endpoint: str) -> str:
    return f"DefaultEndpointsProtocol=http;AccountName={ACCOUNT};AccountKey={KEY};BlobEndpoint={endpoint};"


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
        return port


@pytest.fixture
def append(tmp_path: Path, options: dict[str, str]) -> Callable[[str, int], None]:
    """Return a function that adds commits and a checkpoint to the table of a name."""

    def append(name: str, commits: int) -> None:
        table = str(tmp_path / "table")
        for _ in range(commits):
            rows = pa.table({"day": ["2026-01-01 a"] * 3, "x": [1, 2, 3]})
            write_deltalake(table, rows, mode="append", partition_by=["day"])
        DeltaTable(table).create_checkpoint()
        fsspec.filesystem("az", **options).put(f"{table}/", f"lake/{name}/", recursive=True)

    return append


@pytest.mark.parametrize("url", ["az://lake", "abfs://lake", f"abfss://lake@{ACCOUNT}.dfs.core.windows.net"])
def test_commits_are_seen_by_any_scheme(append: Callable[[str, int], None], options: dict[str, str], url: str) -> None:
    name = f"events of {url.partition(':')[0]}"
    log = TableLog.for_path(f"{url}/{name}", storage_options=options)
    for latest in (2, 5):
        append(name, 3)
        assert log.latest().version == latest


def test_command_reads_the_rows(append: Callable[[str, int], None], options: dict[str, str], tmp_path: Path) -> None:
    append("ev%20 ü", 2)
    option = f"connection_string={options['connection_string']}"
    result = deltasnap("scan", "az://lake/ev%20 ü", "--columns", "x", "-o", option, folder=tmp_path)
    assert (result.returncode, result.stderr) == (0, "")
    assert sorted(result.stdout.split()) == ["1", "1", "2", "2", "3", "3", "x"]


def test_store_has_every_version(
    spark: SparkSession, append: Callable[[str, int], None], options: dict[str, str]
) -> None:
    append("stored", 3)
    log = DeltaLog.for_table(spark, "az://lake/stored", storage_options=options)
    store = SnapshotStore.open(spark, "az://lake/store", storage_options=options)
    store.write_range("events", log, 0, 2)
    assert store.versions("events") == [0, 1, 2]
    assert store.all_files("events", 2).count() == 3


def test_files_are_written_listed_and_deleted(options: dict[str, str]) -> None:
    root = "az://lake/files"
    files = WritableFiles(root, options)
    assert (files.names(root), files.folders(root), files.walk(root)) == ([], [], [])
    files.write_many({f"{root}/a/b%20 ü#?.json": b"12345", f"{root}/a/empty": b""})
    files.write(f"{root}/a/b%20 ü#?.json", b"1234567")
    assert files.read(f"{root}/a/b%20 ü#?.json") == b"1234567"
    assert (files.names(f"{root}/a"), files.folders(root)) == (["b%20 ü#?.json", "empty"], ["a"])
    assert [(found.name, found.size) for found in files.walk(root)] == [("b%20 ü#?.json", 7), ("empty", 0)]
    assert [found and found.size for found in files.statuses([f"{root}/a/empty", f"{root}/a/none", f"{root}/a"])] == [
        0,
        None,
        None,
    ]
    files.delete([f"{root}/a/empty", f"{root}/a/none"])
    files.delete_folder(f"{root}/a")
    assert files.names(f"{root}/a") == []


def test_one_of_several_writers_of_a_new_name_succeeds(options: dict[str, str]) -> None:
    path = "az://lake/new/name"
    with ThreadPoolExecutor() as pool:
        written = list(
            pool.map(lambda content: WritableFiles(path, options).write_new(path, content), [b"1", b"2"] * 2)
        )
    assert sorted(written) == [False, False, False, True]
    files = WritableFiles("az://lake/new", options)
    files.write("az://lake/new/other", b"3")
    assert not files.move_new("az://lake/new/other", path)


def test_missing_container_is_no_empty_folder(options: dict[str, str]) -> None:
    files = WritableFiles("az://none/store", options)
    for listed in (files.names, files.folders):
        with pytest.raises(StorageError, match="the bucket does not exist"):
            listed("az://none/store")


def test_wrong_key_is_denied_access_and_not_shown(endpoint: str) -> None:
    wrong = _connection(endpoint).replace(KEY, "d3Jvbmcta2V5")
    (fault,) = TableLog.for_path("az://lake/events", {"connection_string": wrong}).condition().faults
    assert fault.kind == ProblemKind.ACCESS_DENIED
    assert fault.text.startswith("Access to az://lake/events/_delta_log is denied: Server failed to authenticate")
    assert fault.text.endswith("(AuthorizationFailure).")
    assert "d3Jvbmcta2V5" not in fault.text


def test_only_deltasnap_retries(monkeypatch: pytest.MonkeyPatch) -> None:
    requests = list[bytes]()
    with socket.create_server(("127.0.0.1", 0)) as server:

        def refuse() -> None:
            with suppress(OSError):  # the end of the test
                while True:
                    connection, _ = server.accept()
                    with connection:
                        requests.append(connection.recv(1 << 16))
                        connection.sendall(b"HTTP/1.1 500 Failed\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")

        threading.Thread(target=refuse, daemon=True).start()
        monkeypatch.setattr(retries, "FIRST_PAUSE_SECONDS", 0.01)
        options = {"connection_string": _connection(f"http://127.0.0.1:{server.getsockname()[1]}/{ACCOUNT}")}
        with pytest.raises(StorageError):
            FsspecLogStore(options).read_bytes("az://lake/events/_delta_log/0.json")
        server.shutdown(socket.SHUT_RDWR)
    assert len(requests) == retries.ATTEMPTS
