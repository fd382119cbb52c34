"""Importing this creates a Dagster instance, so that instances in forks of the process start faster."""

from __future__ import annotations

from tests.fast_dagster import new_databases

new_databases()
