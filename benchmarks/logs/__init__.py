"""Generates transaction logs of any size and shape in seconds, without data files: log readers do not open them."""

from __future__ import annotations
