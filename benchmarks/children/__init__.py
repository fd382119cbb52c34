"""Programs for separate processes: `python -m benchmarks.children.NAME ARGUMENTS`. Each report is a line of JSON."""

from __future__ import annotations
