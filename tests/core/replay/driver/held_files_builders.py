"""Builders for the tests of held files."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

PROPERTY = settings(
    max_examples=int(os.environ.get("DELTASNAP_EXAMPLES", "10")),
    derandomize="DELTASNAP_EXAMPLES" not in os.environ,
    deadline=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow, HealthCheck.data_too_large],
)
