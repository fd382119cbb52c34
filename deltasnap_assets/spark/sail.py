"""The Sail server of this process: a Spark Connect server in Rust, for sessions without Java.

Sail is not Apache Spark. A missing feature is handled where Sail rejects the request: see `UnsupportedServerError`.
"""

from __future__ import annotations

import os
import threading
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from deltasnap_assets.spark.connect_check import RemoteError
from deltasnap_core import how_to_install

_ADDRESS = "127.0.0.1"
_CLIENTS = ("4.0.", "4.1.")
"""The PySpark versions that Sail accepts: those of the extra `sail`."""
_LOG_VARIABLE = "RUST_LOG"

_starting = threading.Lock()
_running: list[Any] = []
_urls: dict[int, str] = {}
"""The address by the id of the process. After a fork, the child has none: the threads of a server are not copied."""


def sail_url() -> str:
    """Return the address of this process's server, `sc://127.0.0.1:PORT`. Start it on the first call, in 0.1 s.

    It stops with the process. It listens on this machine only, and has no password. Errors: RemoteError.
    """
    with _starting:
        if os.getpid() not in _urls:
            _urls[os.getpid()] = _start()
        return _urls[os.getpid()]


def running_sail_url() -> str | None:
    """Return the address of this process's server; None: it has not started."""
    return _urls.get(os.getpid())


def sail_version() -> str:
    """Return the version of Sail. Errors: RemoteError if it is not installed, or rejects this PySpark."""
    try:
        found = version("pysail")
    except PackageNotFoundError as error:
        raise RemoteError(f"spark.remote is sail, which is not installed: {how_to_install('sail')}.") from error
    client = version("pyspark")
    if not client.startswith(_CLIENTS):
        raise RemoteError(f"Sail {found} rejects PySpark {client}: install PySpark 4.1, see constraints-sail.txt.")
    return found


def _start() -> str:
    sail_version()
    os.environ.setdefault(_LOG_VARIABLE, "error")  # by default, it writes every request of a session to stderr
    from pysail.spark import SparkConnectServer  # noqa: PLC0415  # from the extra `sail`

    server = SparkConnectServer(_ADDRESS, 0)
    server.start(background=True)
    _, port = server.listening_address
    _running.append(server)
    return f"sc://{_ADDRESS}:{port}"
