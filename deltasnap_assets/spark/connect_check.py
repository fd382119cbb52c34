"""Checks whether a Spark Connect server answers. Its client would retry for minutes before it fails."""

from __future__ import annotations

import socket
from importlib.util import find_spec
from typing import Any
from urllib.parse import urlsplit

from deltasnap_core import DeltaSnapError
from deltasnap_core.support import how_to_install

DEFAULT_PORT = 15002
_PATIENCE_SECONDS = 10.0
_RETRIES = 6  # after 0.05 s, 0.2 s and so on, the last one after 51 s


def check_remote(remote: str) -> None:
    """Raise an error unless the client is installed and a server listens at the address, `sc://HOST:PORT/;...`."""
    if find_spec("grpc") is None:
        raise DeltaSnapError(f"Spark Connect needs packages that are not installed: {how_to_install('connect')}.")
    host, port = _host_and_port(remote)
    try:
        socket.create_connection((host, port), timeout=_PATIENCE_SECONDS).close()
    except OSError as error:
        advice = "Start it, for example with Spark's `sbin/start-connect-server.sh`, or correct spark.remote."
        raise DeltaSnapError(f"No Spark Connect server at {address_of(remote)} ({error}). {advice}") from error


def address_of(remote: str) -> str:
    """Return `sc://HOST:PORT` from a value of `spark.remote`, without the rest, which may contain a token.

    Errors: DeltaSnapError for another form.
    """
    host, port = _host_and_port(remote)
    return f"sc://{host}:{port}"


def limit_retries(session: Any) -> None:
    """Limit a session's client to one minute of retries instead of ten: a restarted server has lost the session."""
    from pyspark.sql.connect.client.retries import DefaultPolicy  # noqa: PLC0415  # from the extra `connect`

    session.client.set_retry_policies([DefaultPolicy(max_retries=_RETRIES)])


def _host_and_port(remote: str) -> tuple[str, int]:
    try:
        url = urlsplit(remote)
        port = url.port or DEFAULT_PORT
    except ValueError as error:
        raise DeltaSnapError(f"Expected spark.remote to be sc://HOST:PORT: {error}") from error
    if not url.hostname:
        raise DeltaSnapError("Expected spark.remote to be sc://HOST:PORT, found no host.")
    return url.hostname, port
