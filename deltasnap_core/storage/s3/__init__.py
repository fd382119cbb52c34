"""What S3 limits, and a faster way to list it."""

from __future__ import annotations
