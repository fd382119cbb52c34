"""Random predicates on random tables: `python -m tests.fuzz.scans`."""

from __future__ import annotations
