"""Texts from a log, an error or a configuration as data: nothing in them steers what shows them. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from deltasnap_core import redacted

MOST_CHARACTERS = 500
_MOST_CAUSES = 20

# C0 and C1 controls steer terminals; bidirectional marks, overrides and isolates reorder what a person reads; line and
# paragraph separators break lines; tags and annotations are invisible; lone surrogates cannot be encoded.
_UNSHOWABLE = re.compile(
    "[\x00-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\ud800-\udfff"
    "\U000e0000-\U000e007f]"
)
# Bounded in all its parts: a text may be megabytes of letters, and each place in it a beginning.
_URL = re.compile(r"(?<![A-Za-z0-9])[A-Za-z][A-Za-z0-9+.-]{0,30}:/[^\s'\"<>`]{0,4000}")
_PUNCTUATION = re.compile(r"([!-/:-@\[-`{-~])")


def visible(text: object, most: int = MOST_CHARACTERS) -> str:
    r"""Return a text on one line with every control character written out (`\x1b`, `\u202e`), cut after `most`."""
    whole = str(text)
    cut = whole if len(whole) <= most else f"{whole[:most]}… ({len(whole) - most:,} more characters)"
    return _UNSHOWABLE.sub(lambda found: found[0].encode("unicode_escape").decode("ascii"), cut)


def without_secrets(text: str) -> str:
    """Return a text with the credentials in its URLs redacted."""
    return _URL.sub(lambda found: redacted(found[0]), text)


def markdown_code(text: object, most: int = MOST_CHARACTERS) -> str:
    """Return a text as a code span of Markdown, whatever backticks it holds; in a table cell too."""
    shown = visible(text, most)
    longest = max((len(run) for run in re.findall("`+", shown)), default=0)
    fence = "`" * (longest + 1)
    pad = " " if longest or not shown.strip() else ""
    # A table is cut into cells before code spans are looked for: there a backslash saves a pipe, unless it has one.
    shown = re.sub(r"(\\?)\|", lambda found: r"\\x7c" if found[1] else r"\|", shown)
    return f"{fence}{pad}{shown}{pad}{fence}"


def markdown_text(text: object, most: int = MOST_CHARACTERS) -> str:
    """Return a text as Markdown that shows just that text: no emphasis, link, image, HTML or cell border in it."""
    return _PUNCTUATION.sub(r"\\\1", visible(text, most))


@contextmanager
def secrets_hidden() -> Iterator[None]:
    """Redact the credentials in whatever error passes, and in its causes: Dagster stores what an error says.

    The error stays the same object, with its data; only its message changes.
    """
    try:
        yield
    except Exception as error:
        for each in _chain(error):
            each.args = tuple(without_secrets(part) if isinstance(part, str) else part for part in each.args)
            if isinstance(each, OSError) and isinstance(each.filename, str):
                each.filename = without_secrets(each.filename)
        raise


def _chain(error: BaseException) -> Iterator[BaseException]:
    following: BaseException | None = error
    for _ in range(_MOST_CAUSES):  # causes may form a circle
        if following is None:
            return
        yield following
        following = following.__cause__ or following.__context__
