"""A program that reuses the process id of a stopped server is never mistaken for it, even by concurrent readers."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from deltasnap_assets.processes import process_name
from deltasnap_assets.spark.connect_server import SERVER_VARIABLE, SparkServerError, running_server, stop_server

PORT = 15002


@pytest.fixture(scope="module")
def other() -> Iterator[subprocess.Popen[bytes]]:
    """Another program, in a separate process group."""
    process = subprocess.Popen(["sleep", "600"], start_new_session=True)
    yield process
    process.kill()
    process.wait()


def record(folder: Path, **values: Any) -> None:
    folder.mkdir(exist_ok=True)
    (folder / "lock").touch()
    (folder / "server.json").write_text(json.dumps({"port": PORT, **values}))


def records(pid: int) -> st.SearchStrategy[dict[str, Any]]:
    machine, _, started = process_name(pid).split("#")
    names = st.one_of(
        st.just(""),
        st.just(f"{machine}#{pid}#"),
        st.just(f"elsewhere#{pid}#{started}"),
        st.integers(0, 10**9)
        .map(lambda ticks: f"{machine}#{pid}#{ticks}")
        .filter(lambda each: each != process_name(pid)),
        st.text(),
    )
    return st.fixed_dictionaries({"process_group": st.just(pid)}, optional={"process": names, "mark": st.just("gone")})


@pytest.mark.slow
@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_program_with_the_id_of_a_dead_server_is_not_stopped(
    other: subprocess.Popen[bytes], tmp_path: Path, data: st.DataObject
) -> None:
    folder = tmp_path / "server"
    record(folder, **data.draw(records(other.pid)))
    with ThreadPoolExecutor(8) as pool:
        looks = [pool.submit(running_server, folder) for _ in range(8)]
        stops = [pool.submit(stop_server, folder) for _ in range(4)]
    assert {each.result() for each in [*looks, *stops]} == {None}
    assert other.poll() is None


def test_server_is_identified_by_its_children_after_its_launcher_has_ended(tmp_path: Path) -> None:
    record(tmp_path / "server", process_group=0, mark="of this test")
    child = subprocess.Popen(["sleep", "600"], env={**os.environ, SERVER_VARIABLE: "of this test"})
    try:
        with ThreadPoolExecutor(8) as pool:
            found = list(pool.map(running_server, [tmp_path / "server"] * 8))
        assert all(server is not None and server.port == PORT for server in found)
        waiting = ThreadPoolExecutor(1).submit(child.wait)  # a child that is not waited for remains as a zombie
        assert stop_server(tmp_path / "server") is not None
        waiting.result()
    finally:
        child.kill()
    assert running_server(tmp_path / "server") is None


INVALID = [
    *("", "[]", "{", "[" * 100_000, '{"port": 1}', '{"unheard": 1}', '{"port": 1, "process_group": 2, "unheard": 1}'),
    *('{"port": "1", "process_group": 2}', '{"port": 1, "process_group": true}', '{"port": 70000, "process_group": 2}'),
    *('{"port": 0, "process_group": 2}', '{"port": 65536, "process_group": 2}'),
    *('{"port": 1, "process_group": 2, "process": 3}', '{"port": 1, "process_group": 2, "mark": "\\ud800"}'),
]


@pytest.mark.parametrize("text", INVALID, ids=range(len(INVALID)))
def test_invalid_record_raises_an_error_that_names_it(tmp_path: Path, text: str) -> None:
    (tmp_path / "server.json").write_text(text)
    with pytest.raises(SparkServerError, match=r"server\.json.*delete it"):
        running_server(tmp_path)
