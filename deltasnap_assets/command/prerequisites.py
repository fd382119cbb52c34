"""What a command needs to start: the packages of an extra. Without them, it prints what to do."""

from __future__ import annotations

from importlib.util import find_spec

from deltasnap_assets.command.endings import fail
from deltasnap_core.support import how_to_install


def require_package(module: str, extra: str) -> None:
    """Unless a module is installed, print which extra to install and exit."""
    if find_spec(module) is None:
        fail(f"This command needs the package {module.replace('_', '-')}: {how_to_install(extra)}.")
