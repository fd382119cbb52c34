"""The functions that Typer calls: one for each command."""

from __future__ import annotations
