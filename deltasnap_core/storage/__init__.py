"""File access of the core: a small interface and its fsspec adapter."""

from __future__ import annotations
