"""The demo table."""

from __future__ import annotations
