"""How the core reaches files: a small port and its fsspec adapter."""

from __future__ import annotations
