from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from deltasnap_assets.spark.connect_check import limit_retries

pytest.importorskip("grpc")


def test_client_of_a_server_that_is_gone_gives_up_after_a_minute() -> None:
    given: list[Any] = []  # to a client of Spark's own: it would ask the server at its end, for as long
    limit_retries(SimpleNamespace(client=SimpleNamespace(set_retry_policies=given.extend)))
    (policy,) = given
    waits = (policy.initial_backoff * policy.backoff_multiplier**attempt for attempt in range(policy.max_retries))
    assert 30_000 < sum(min(wait, policy.max_backoff) for wait in waits) < 90_000
