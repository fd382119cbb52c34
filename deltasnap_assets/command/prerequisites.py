"""What a command needs to start: a configuration, and the packages of an extra. Without them, it prints what to do."""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING

from deltasnap_assets.command.endings import fail
from deltasnap_core import how_to_install

if TYPE_CHECKING:
    from deltasnap_assets.settings.config import Settings


def settings_in_use() -> Settings:
    """Return the configured settings. Without a configuration or a demo table, print what to do and exit."""
    from deltasnap_assets.settings.loading import load_settings, nothing_to_follow

    settings = load_settings()
    if (problem := nothing_to_follow(settings)) is not None:
        fail(problem)
    return settings


def require_package(module: str, extra: str) -> None:
    """Unless a module is installed, print which extra to install and exit."""
    if find_spec(module) is None:
        fail(f"This command needs the package {module.replace('_', '-')}: {how_to_install(extra)}.")
