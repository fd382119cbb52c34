"""`deltasnap.yaml` -> typed settings."""

from __future__ import annotations
