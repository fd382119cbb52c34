"""Escapes text from a log, an error or a configuration, so that it cannot control the terminal or the UI. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from deltasnap_core.support import hide_secrets, redacted as without_secrets

__all__ = [
    "MAX_CHARACTERS",
    "escaped",
    "lines_joined",
    "markdown_code",
    "markdown_text",
    "plain_of_markdown",
    "secrets_hidden",
    "visible",
    "visible_value",
    "without_secrets",
]

MAX_CHARACTERS = 500

# C0 and C1 controls control terminals; bidirectional marks, overrides and isolates reorder the visible text; line and
# paragraph separators break lines; tags and annotations are invisible; lone surrogates cannot be encoded; XML has no
# U+FFFE and U+FFFF.
_UNSHOWABLE = re.compile(
    "[\x00-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\ufffe\uffff\ud800-\udfff"
    "\U000e0000-\U000e007f]"
)
_PUNCTUATION = re.compile(r"([!-/:-@\[-`{-~])")
_ESCAPED = re.compile(rf"\\{_PUNCTUATION.pattern}")
_FENCED = re.compile(r"(?P<fence>``+) (?P<code>.*?) (?P=fence)")


def visible(text: object, most: int = MAX_CHARACTERS) -> str:
    r"""Return a text on one line, without credentials, with control characters escaped (`\x1b`), cut after `most`."""
    return visible_value(without_secrets(str(text)), most)


def visible_value(value: str, most: int = MAX_CHARACTERS) -> str:
    """Return a value of the user's data like `visible`, but without redaction of text that resembles a credential."""
    note = f"… ({len(value) - most:,} more characters)"
    cut = value if len(value) <= most + len(note) else f"{value[:most]}{note}"  # never longer than the whole text
    return escaped(cut, lambda character: character.encode("unicode_escape").decode("ascii"))


def lines_joined(text: str) -> str:
    """Return a text of several lines, or a list in Markdown, as one line. Code that has backticks loses its fence."""
    joined = ""
    text = _FENCED.sub(lambda found: found["code"], text)
    for line in (line.strip().removeprefix("- ") for line in text.split("\n") if line.strip()):
        separator = " " if joined.endswith((".", ":", ";", ",")) else "; "
        joined += f"{separator}{line}" if joined else line
    return joined


def plain_of_markdown(text: str) -> str:
    """Return Markdown of `markdown_text`, `markdown_code`, paragraphs and lists as plain text on one line."""
    return lines_joined(_ESCAPED.sub(r"\1", text))


def escaped(text: str, escape: Callable[[str], str]) -> str:
    """Return a text with `escape` applied to each control character."""
    return _UNSHOWABLE.sub(lambda found: escape(found[0]), text)


def markdown_code(text: object, most: int = MAX_CHARACTERS) -> str:
    """Return a text, with any backticks, as a Markdown code span. Also works in a table cell."""
    shown = visible(text, most)
    longest = max((len(run) for run in re.findall("`+", shown)), default=0)
    fence = "`" * (longest + 1)
    pad = " " if longest or not shown.strip() else ""
    # Markdown splits a table into cells before it finds code spans. There a backslash escapes a pipe, unless another
    # backslash precedes it.
    shown = re.sub(r"(\\?)\|", lambda found: r"\\x7c" if found[1] else r"\|", shown)
    return f"{fence}{pad}{shown}{pad}{fence}"


def markdown_text(text: object, most: int = MAX_CHARACTERS) -> str:
    """Return a text as Markdown that shows exactly that text: no emphasis, link, image, HTML or cell border."""
    return _PUNCTUATION.sub(r"\\\1", visible(text, most))


@contextmanager
def secrets_hidden() -> Iterator[None]:
    """Remove credentials from any error that passes, and from its causes, because Dagster stores error messages."""
    try:
        yield
    except Exception as error:
        hide_secrets(error)
        raise
