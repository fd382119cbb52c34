"""Importing this builds the commands once for all tests: Typer builds them again for each call."""

from __future__ import annotations

from functools import cache

import typer.main
import typer.testing

from deltasnap_assets.command.cli import app

typer.main.get_command = typer.testing._get_command = cache(typer.main.get_command)  # type: ignore[attr-defined]
typer.main.get_command(app)
