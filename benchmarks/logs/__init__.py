"""Transaction logs of any size and shape, made in seconds. No data files: readers of logs open none."""

from __future__ import annotations
