"""The value of `env` in the templates of a `defs.yaml`. An unset variable is an error, as in `deltasnap.yaml`.

Dagster's own value is None, which becomes the text `None` in a path.
"""

from __future__ import annotations

import os
from typing import NoReturn

from jinja2 import Undefined, UndefinedError


class Environment:
    """The environment variables: `{{ env.NAME }}`, `{{ env('NAME') }}` or `{{ env('NAME', 'default') }}`."""

    def __call__(self, name: str, default: object = None) -> object:
        """Return a variable, or the default."""
        return os.environ.get(name, unset(name) if default is None else default)

    def __getattr__(self, name: str) -> object:
        if name.startswith(("jinja", "__")):  # Jinja and Python access these on any value
            raise AttributeError(name)
        return self(name)


class _Unset(Undefined):
    """An unset variable: false in a condition, an error as text."""

    def __str__(self) -> NoReturn:
        raise UndefinedError(self._undefined_message)


def unset(name: str) -> Undefined:
    """Return the value of an unset variable."""
    return _Unset(hint=f"The environment variable {name} is not set.")
