"""Decides when and what to materialize: plan, partitions, sensors, schedules, refresh, unfinished and failed runs."""

from __future__ import annotations
