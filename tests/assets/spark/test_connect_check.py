from __future__ import annotations

import socket
from types import SimpleNamespace
from typing import Any

import pytest

from deltasnap_assets.spark import connect_check
from deltasnap_assets.spark.connect_check import address_of, check_remote, limit_retries
from deltasnap_core import DeltaSnapError

pytest.importorskip("grpc")


def test_client_of_a_stopped_server_fails_after_a_minute() -> None:
    given: list[Any] = []  # for Spark's own client, which would otherwise contact the server on exit for as long
    limit_retries(SimpleNamespace(client=SimpleNamespace(set_retry_policies=given.extend)))
    (policy,) = given
    waits = (policy.initial_backoff * policy.backoff_multiplier**attempt for attempt in range(policy.max_retries))
    assert 30_000 < sum(min(wait, policy.max_backoff) for wait in waits) < 90_000


def test_missing_client_is_reported_before_the_server_is_contacted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connect_check, "find_spec", lambda _: None)
    monkeypatch.setattr("socket.create_connection", lambda *_, **__: pytest.fail("contacted a server"))
    with pytest.raises(DeltaSnapError, match="needs packages that are not installed: install"):
        check_remote("sc://127.0.0.1:1")


def test_remote_without_a_port_has_the_default_port_of_spark_connect() -> None:
    assert address_of("sc://host/;token=secret") == "sc://host:15002"


def test_server_that_listens_is_accepted() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        check_remote(f"sc://127.0.0.1:{server.getsockname()[1]}")


@pytest.mark.parametrize("remote", ["sc://", "sc://host:port", "sc://127.0.0.1:{unused}/;token=secret"])
def test_remote_that_cannot_be_reached_is_one_line_without_its_token(remote: str) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))  # taken, and nothing listens
        with pytest.raises(DeltaSnapError) as raised:
            check_remote(remote.replace("{unused}", str(probe.getsockname()[1])))
    assert "secret" not in str(raised.value)
    assert "\n" not in str(raised.value)


def test_remote_that_does_not_respond_is_named_with_what_starts_one() -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        address = f"sc://127.0.0.1:{probe.getsockname()[1]}"
        with pytest.raises(
            DeltaSnapError, match=rf"^No Spark Connect server at {address} .*sbin/start-connect-server\.sh"
        ):
            check_remote(address)
