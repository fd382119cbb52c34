"""The port of `deltasnap ui`: it is checked before anything is started."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.assets.command.cli_builders import COMMAND, FORKS, assert_one_line_of_error, small_table

# In place of Dagster's UI, which would replace the process: print how it would be started.
STARTED = "import json, os\nos.execv = lambda _, arguments: print(json.dumps(arguments))\n" + COMMAND


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A working folder with a table, and a session that needs no Java on this machine."""
    small_table(tmp_path / "t")
    text = "storage: store\ntables: [{name: t, path: t}]\nspark: {remote: 'sc://127.0.0.1:1'}"
    (tmp_path / "deltasnap.yaml").write_text(text, encoding="utf-8")
    return tmp_path


@pytest.fixture
def bound() -> Iterator[socket.socket]:
    """A socket with a port of its own. Nothing answers there before it listens."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        yield found


def test_port_in_use_is_an_error_that_names_the_option(folder: Path, bound: socket.socket) -> None:
    bound.listen()
    port = bound.getsockname()[1]
    result = FORKS.run(STARTED, "ui", "--port", str(port), cwd=folder)
    assert_one_line_of_error(result, f"Port {port} of 127.0.0.1 is in use. Choose another with --port.")
    assert (result.returncode, result.stdout) == (1, "")


def test_ui_starts_on_a_free_port(folder: Path, bound: socket.socket) -> None:
    port = str(bound.getsockname()[1])
    result = FORKS.run(STARTED, "ui", "--port", port, cwd=folder)
    arguments = json.loads(result.stdout.splitlines()[-1])
    assert arguments[1:4] == ["-m", "dagster", "dev"]
    assert arguments[-4:] == ["--host", "127.0.0.1", "--port", port]


def test_port_that_cannot_be_opened_is_an_error_with_its_reason(folder: Path, bound: socket.socket) -> None:
    address = "192.0.2.1"  # reserved for documentation: of no machine
    result = FORKS.run(STARTED, "ui", "--host", address, "--port", str(bound.getsockname()[1]), cwd=folder)
    assert_one_line_of_error(result, f"of {address} cannot be opened: ", "Choose another with --port or --host.")
    assert not (folder / ".deltasnap").exists()
