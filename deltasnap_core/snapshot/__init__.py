"""Snapshots of a table: the current one, the one at a version or at a time, and the history."""

from __future__ import annotations
