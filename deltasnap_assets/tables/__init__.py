"""The assets of one table: assets, checks, metadata, IO manager, resources, maintenance."""

from __future__ import annotations
