"""Resolves the templates in a `defs.yaml`. A text stays a text.

Dagster evaluates each text of the file, with or without a template, as a literal of Python: the password `"12345"`
becomes a number, and the name `"{{ env.YEAR }}_{{ env.MONTH }}"` becomes 202410.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from contextlib import suppress
from typing import Any, NoReturn

import dagster as dg
from jinja2 import Undefined, UndefinedError
from jinja2.nativetypes import NativeEnvironment

TEMPLATE = re.compile(r"\{\{|\{%")
"""What a text with a template contains."""


def resolved(context: dg.ResolutionContext, value: Any) -> Any:
    """Return a value of the file with resolved templates. A template of one expression has the value of that.

    Errors: those of Dagster, with the line.
    """
    match value:
        case str() if TEMPLATE.search(value):
            return _rendered(context, value)
        case dict():
            return {key: resolved(context.at_path(key), part) for key, part in value.items()}
        case list() | tuple():
            return [resolved(context.at_path(index), part) for index, part in enumerate(value)]
    return value


def _rendered(context: dg.ResolutionContext, text: str) -> Any:
    with suppress(Exception):
        template = NativeEnvironment().from_string(text)
        # Its `render` would evaluate the text as a literal.
        found = _joined(template.root_render_func(template.new_context(dict(context.scope))))
        if not isinstance(found, Undefined):
            return found
    return context.resolve_value(text)  # raises the error with the line


def _joined(values: Iterable[Any]) -> Any:
    parts = list(values)
    return parts[0] if len(parts) == 1 else "".join(str(part) for part in parts)


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
