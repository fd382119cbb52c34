from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from deltasnap_assets.spark import connect_check
from deltasnap_assets.spark.connect_check import RemoteError, check_remote, limit_retries

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
    with pytest.raises(RemoteError, match="needs packages that are not installed: install"):
        check_remote("sc://127.0.0.1:1")
