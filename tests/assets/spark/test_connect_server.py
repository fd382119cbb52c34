"""Starting and stopping a Spark Connect server, with a fake Spark. See also test_spark_connect."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from deltasnap_assets.settings.config import SparkSettings
from deltasnap_assets.spark import connect_server
from deltasnap_assets.spark.connect_check import RemoteError, address_of, check_remote
from deltasnap_assets.spark.connect_server import (
    SparkServer,
    SparkServerError,
    answers,
    exercise_server,
    running_server,
    start_server,
    stop_server,
)
from tests.assets.command.test_cli import assert_one_line_of_error, deltasnap, java_of, without_java

LISTENS = """\
{python} -I -S -c '
import re, socket, sys, time
port = int(re.search(r"binding.port (\\d+)", open(sys.argv[-1]).read())[1])
listener = socket.create_server(("127.0.0.1", port))
print("listening", flush=True)
while True: listener.accept()
' "$@"
echo unreachable"""
ENDS = "echo 'Starting'; echo 'Exception in thread main: no such master'; echo '  at org.apache'; exit 1"
SILENT = "sleep 60"
RECORDS = 'env > environment; echo "$@" > arguments; exit 1'


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setenv("JAVA_HOME", java_of(tmp_path, "17.0.1"))
    monkeypatch.setenv("DELTASNAP_JAVA", "system")
    monkeypatch.setenv("SPARK_HOME", str(tmp_path / "spark"))
    yield tmp_path / "server"
    stop_server(tmp_path / "server")


def spark_that(folder: Path, does: str) -> None:
    """Install a fake Spark whose Connect server is a shell script."""
    home = folder.parent / "spark"
    (home / "jars").mkdir(parents=True)
    (home / "bin").mkdir()
    script = does.replace("{python}", sys.executable)
    (home / "bin" / "spark-submit").write_text(f"{script}\n", encoding="utf-8")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def test_server_is_started_found_and_stopped(folder: Path) -> None:
    spark_that(folder, LISTENS)
    assert running_server(folder) is None
    server = start_server(SparkSettings(), folder, free_port())
    assert answers(server.port)
    assert (folder / "server.log").is_file()
    assert running_server(folder) == server
    assert server.url == f"sc://127.0.0.1:{server.port}"
    check_remote(server.url)
    assert stop_server(folder) == server
    assert not answers(server.port)
    assert running_server(folder) is None


@pytest.mark.slow
def test_running_server_is_returned_for_its_port_only(folder: Path) -> None:
    spark_that(folder, LISTENS)
    server = start_server(SparkSettings(), folder, free_port())
    assert start_server(SparkSettings(), folder, server.port) == server
    with pytest.raises(SparkServerError, match=f"already running in this folder, on port {server.port}"):
        start_server(SparkSettings(), folder, free_port())


def test_settings_are_escaped_as_in_a_properties_file_of_java(tmp_path: Path) -> None:
    connect_server._write_properties(tmp_path / "properties", {"spark.a key": "b\\c=d:e\n\t\r", "plain": "text"})
    written = (tmp_path / "properties").read_text(encoding="utf-8")
    assert written == "spark.a\\ key b\\\\c\\=d\\:e\\n\\t\\r\nplain text\n"


@pytest.mark.slow
def test_server_gets_its_settings_in_a_private_file_and_no_session_of_the_environment(
    folder: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SPARK_REMOTE", "sc://elsewhere")
    monkeypatch.setenv("SPARK_MASTER", "local[9]")
    spark_that(folder, RECORDS)
    with pytest.raises(SparkServerError, match="its log is empty"):
        start_server(SparkSettings(master="local[2]"), folder, free_port())
    properties = folder / "spark.properties"
    assert properties.stat().st_mode & 0o777 == 0o600
    assert "spark.master local[2]" in properties.read_text(encoding="utf-8").splitlines()
    given = (tmp_path / "arguments").read_text(encoding="utf-8").split()
    assert given == [
        *("--class", "org.apache.spark.sql.connect.service.SparkConnectServer", "--name", "Spark", "Connect", "server"),
        *("--load-spark-defaults", "--properties-file", str(properties)),
    ]
    environment = (tmp_path / "environment").read_text(encoding="utf-8").splitlines()
    assert {f"SPARK_HOME={tmp_path / 'spark'}", "SPARK_CONNECT_MODE=0"} <= {*environment}
    assert not [line for line in environment if line.startswith(("SPARK_REMOTE=", "SPARK_MASTER="))]


def test_server_is_not_started_twice_at_once(folder: Path) -> None:
    spark_that(folder, LISTENS)
    folder.mkdir()
    with (
        connect_server._locked(folder / "lock"),
        pytest.raises(SparkServerError, match="Another command is starting a server in this folder"),
    ):
        start_server(SparkSettings(), folder, free_port())


def test_server_that_was_started_in_the_meantime_is_returned_and_keeps_its_files(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spark_that(folder, ENDS)
    folder.mkdir()
    files = [folder / "server.log", folder / "spark.properties"]
    for file in files:
        file.write_text("of the other")
    port = free_port()
    other = SparkServer(port=port, process_group=0)
    found = iter([None, other, None, other])
    monkeypatch.setattr(connect_server, "running_server", lambda _: next(found, None))
    assert start_server(SparkSettings(), folder, port) == other
    with pytest.raises(SparkServerError, match=rf"in this folder, on port {port}\."):
        start_server(SparkSettings(), folder, free_port())
    assert [file.read_text() for file in files] == ["of the other"] * 2


def test_server_inherits_no_session_of_the_environment(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spark_that(folder, ENDS)
    inherited = {"SPARK_REMOTE": "sc://elsewhere", "SPARK_MASTER": "local[9]", "SPARK_CONNECT_MODE": "1"}
    for name, value in inherited.items():
        monkeypatch.setenv(name, value)
    given = connect_server._environment()
    assert {name: given.get(name) for name in inherited} == {**dict.fromkeys(inherited), "SPARK_CONNECT_MODE": "0"}
    assert given["SPARK_HOME"] == str(folder.parent / "spark")


@pytest.mark.parametrize(("code", "succeeds"), [(0, True), (1, False)])
def test_server_is_exercised_in_a_session_of_another_process(
    code: int, succeeds: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: list[Any] = []

    def run(command: list[str], **options: Any) -> subprocess.CompletedProcess[str]:
        given.extend([command[1:], json.loads(options["input"])["spark.remote"], options["capture_output"]])
        return subprocess.CompletedProcess(command, code)

    monkeypatch.setattr(subprocess, "run", run)
    assert exercise_server(SparkServer(port=7, process_group=0), rounds=3) is succeeds
    assert given == [["-m", "deltasnap_assets.tables.warm_up_workload", "3"], "sc://127.0.0.1:7", True]


@pytest.mark.slow
def test_killed_server_is_detected_despite_its_files(folder: Path) -> None:
    spark_that(folder, LISTENS)
    server = start_server(SparkSettings(), folder, free_port())
    os.killpg(server.process_group, signal.SIGKILL)
    for _ in range(100):
        if running_server(folder) is None:
            break
        time.sleep(0.05)
    assert (folder / "server.json").exists()
    assert stop_server(folder) is None
    assert start_server(SparkSettings(), folder, server.port).port == server.port


def test_server_that_stops_reports_the_reason_from_its_log(folder: Path) -> None:
    spark_that(folder, ENDS)
    with pytest.raises(SparkServerError, match=r"no such master.*server\.log"):
        start_server(SparkSettings(), folder, free_port())
    assert running_server(folder) is None


@pytest.mark.parametrize(
    ("lines", "reason"),
    [
        (["Starting", "error: no master", "x"], "error: no master"),
        (["Starting", " a.b.FooException: x ", "Error: y"], "a.b.FooException: x"),
        (["Error: y", "x"], "Error: y"),
        (["Could not find it", "x"], "Could not find it"),
        (["Unrecognized option", "x"], "Unrecognized option"),
        (["Starting", "Ended", " "], "Ended"),
        (["caf\udce9", " "], "caf\ufffd"),  # not UTF-8
        ([""], "its log is empty"),
    ],
)
def test_reason_is_the_first_error_of_the_log_or_its_last_line(lines: list[str], reason: str, tmp_path: Path) -> None:
    (tmp_path / "server.log").write_bytes("\n".join(lines).encode("utf-8", "surrogateescape"))
    assert connect_server._reason(tmp_path / "server.log") == reason


@pytest.mark.slow
def test_server_that_does_not_respond_in_time_is_stopped(folder: Path) -> None:
    spark_that(folder, SILENT)
    with pytest.raises(SparkServerError, match="did not respond within 1 s"):
        start_server(SparkSettings(), folder, free_port(), timeout_seconds=0.6)
    assert running_server(folder) is None


def test_port_of_another_program_is_rejected(folder: Path) -> None:
    spark_that(folder, LISTENS)
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        with pytest.raises(SparkServerError, match=f"port {port}"):
            start_server(SparkSettings(), folder, port)


def test_spark_without_its_scripts_is_reported(folder: Path) -> None:
    (folder.parent / "spark" / "jars").mkdir(parents=True)
    with pytest.raises(SparkServerError, match="spark-submit"):
        start_server(SparkSettings(), folder, free_port())


def test_remote_without_a_port_has_the_default_port_of_spark_connect() -> None:
    assert address_of("sc://host/;token=secret") == "sc://host:15002"


@pytest.mark.parametrize("remote", ["sc://", "sc://host:port", "sc://127.0.0.1:{free}/;token=secret"])
def test_remote_that_cannot_be_reached_is_one_line_without_its_token(remote: str) -> None:
    with pytest.raises(RemoteError) as raised:
        check_remote(remote.replace("{free}", str(free_port())))
    assert "secret" not in str(raised.value)
    assert "\n" not in str(raised.value)


def test_commands_report_that_no_server_runs(tmp_path: Path) -> None:
    requested = deltasnap("spark-server", "status", folder=tmp_path)
    assert (requested.returncode, requested.stdout.strip()) == (1, "No server is running in this folder.")
    stopped = deltasnap("spark-server", "stop", folder=tmp_path)
    assert (stopped.returncode, stopped.stdout.strip()) == (0, "No server is running in this folder.")


def test_start_without_java_is_one_line(tmp_path: Path) -> None:
    result = deltasnap("spark-server", "start", "--port", str(free_port()), folder=tmp_path, **without_java(tmp_path))
    assert_one_line_of_error(result, "No Java found")
