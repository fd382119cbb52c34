"""The help of the commands: paragraphs fill the width, and each option shows the name of its value, not the type."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, TypeVar

import typer
from typer.core import TyperArgument, TyperCommand, TyperGroup

_Function = TypeVar("_Function", bound=Callable[..., Any])


def _filled(text: str | None) -> str | None:
    """Return a docstring with each paragraph on one line, because Typer keeps the line breaks of all but the first."""
    if text is None:
        return None
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in inspect.cleandoc(text).split("\n\n"))


def _without_types(parameters: list[Any]) -> list[Any]:
    """Show arguments and flags without the Python type of their value. Other options show the name of the value."""
    for each in parameters:
        if isinstance(each, TyperArgument) or each.is_flag:
            each.display_type_rich = lambda **_: None
    return parameters


class HelpfulCommand(TyperCommand):
    """A command with this help."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.help = _filled(self.help)

    def get_params(self, ctx: Any) -> list[Any]:
        """Return the parameters, with `--help`."""
        return _without_types(super().get_params(ctx))


class HelpfulGroup(TyperGroup):
    """A group of commands with this help."""

    def get_params(self, ctx: Any) -> list[Any]:
        """Return the parameters, with `--help`."""
        return _without_types(super().get_params(ctx))


class CommandLine(typer.Typer):
    """A Typer app whose commands have this help."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(cls=HelpfulGroup, **kwargs)

    def command(self, name: str | None = None, **kwargs: Any) -> Callable[[_Function], _Function]:
        """Return the decorator of a command."""
        return super().command(name, cls=HelpfulCommand, **kwargs)
