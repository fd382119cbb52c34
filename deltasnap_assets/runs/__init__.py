"""Decides when and what to materialize: plan, partitions, sensors, schedules, refresh, lost runs."""

from __future__ import annotations
