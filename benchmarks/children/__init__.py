"""What runs in a process of its own: `python -m benchmarks.children.NAME ARGUMENTS`, a line of JSON for each report."""

from __future__ import annotations
