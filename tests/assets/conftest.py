"""Fixtures of the tests of the app: they create hundreds of Dagster instances."""

from __future__ import annotations

import tests.fast_dagster  # noqa: F401
