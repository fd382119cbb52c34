"""The values of storage options. Does not load pydantic."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_BOOLEANS = {"true": True, "false": False}


def with_booleans(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return storage options in which the texts `true` and `false` are booleans: filesystems take any text as true.

    Values from the command line and from environment variables are texts.
    """
    return {name: _with_booleans(value) for name, value in options.items()}


def _with_booleans(value: Any) -> Any:
    if isinstance(value, Mapping):
        return with_booleans(value)
    return _BOOLEANS.get(value.lower(), value) if isinstance(value, str) else value
