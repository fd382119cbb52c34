"""Measures deltasnap, side by side with deltalake: `python -m benchmarks --help`."""

from __future__ import annotations
