"""Under which name this is installed. Never tell anybody to install `deltasnap`: on PyPI that is another project."""

from __future__ import annotations

DISTRIBUTION = "dagster-deltasnap"


def how_to_install(extra: str) -> str:
    """Return the words that say how an optional part is added."""
    return f"install {DISTRIBUTION} with its extra {extra}; in its checkout: pip install -e '.[{extra}]'"
