"""Measures deltasnap compared with deltalake: `python -m benchmarks --help`."""

from __future__ import annotations
