"""The `deltasnap` command and its output."""

from __future__ import annotations
