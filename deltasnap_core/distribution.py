"""The name of the distribution. Never tell users to install `deltasnap`: on PyPI that is a different project."""

from __future__ import annotations

DISTRIBUTION = "dagster-deltasnap"
"""The name to install."""


def how_to_install(extra: str) -> str:
    """Return the instruction for installing an extra."""
    return f"install {DISTRIBUTION} with the extra {extra} (in a checkout: pip install -e '.[{extra}]')"
