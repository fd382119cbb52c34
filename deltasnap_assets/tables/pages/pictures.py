"""Charts for Dagster's pages: SVG in a Markdown image, with escaped text. Pure.

Dagster's UI drops HTML and inline SVG from Markdown, but shows an image with a `data:` URL. It shows the image next to
its key if the whole text has less than a thousand characters, and otherwise only after a click. So the SVG is terse,
and a chart has as many bars as fit. The colors are readable on light and dark backgrounds.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from urllib.parse import quote
from xml.sax.saxutils import escape

from deltasnap_assets.quantities import bytes_text
from deltasnap_assets.texts import visible
from deltasnap_core import FileSizeHistogram

MAX_CHARACTERS = 999
MAX_BARS = 10
MAX_STEPS = 30

_LABEL_WIDTH, _BAR_WIDTH, _TEXT_WIDTH, _ROW = 120, 150, 120, 17
_MAX_LABEL_LENGTH = 20
_CHART_WIDTH, _HALF_HEIGHT = 360, 45


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """One bar: its label, its length in any unit, and the text after it."""

    label: str
    value: float
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionStep:
    """The change of one version: the bytes or files added and removed, and the operation."""

    version: int
    operation: str
    added: int
    removed: int


def bars_picture(title: str, bars: Sequence[Bar]) -> str:
    """Return horizontal bars, one below the other, as Markdown. title: the alternative text of the image."""
    longest = max((bar.value for bar in bars), default=0) or 1
    lengths = [math.ceil(max(bar.value, 0) / longest * _BAR_WIDTH) for bar in bars]
    path = "".join(f"M{_LABEL_WIDTH} {row * _ROW + 2}h{length}v13h-{length}z" for row, length in enumerate(lengths))
    lines = [f"<path d='{path}' fill='slateblue'/>"]
    for row, (bar, length) in enumerate(zip(bars, lengths, strict=True)):
        y = row * _ROW + 12
        lines.append(f"<text x='0' y='{y}'>{_xml(bar.label)}</text>")
        lines.append(f"<text x='{_LABEL_WIDTH + length + 5}' y='{y}'>{_xml(bar.text)}</text>")
    return _image(title, lines, width=_LABEL_WIDTH + _BAR_WIDTH + _TEXT_WIDTH, height=len(bars) * _ROW)


def most_bars_picture(title: str, bars: Sequence[Bar], most: int = MAX_CHARACTERS) -> tuple[str, int]:
    """Return a picture of the first bars that fit into `most` characters, at least one, and their number."""
    for count in range(min(len(bars), MAX_BARS), 1, -1):
        if len(picture := bars_picture(title, bars[:count])) <= most:
            return picture, count
    return bars_picture(title, bars[:1]), len(bars[:1])


def versions_picture(title: str, steps: Sequence[VersionStep]) -> str:
    """Return the additions (up) and removals (down) of the last versions, ascending, as Markdown.

    The heights are square roots, so that a few kilobytes stay visible next to a gigabyte.
    """
    shown = steps[-MAX_STEPS:]
    if not shown:
        return "no changes"
    highest = max(max(step.added, step.removed) for step in shown) or 1
    width = _CHART_WIDTH // MAX_STEPS - 1
    lines = []
    for color, sign, values in (
        ("seagreen", "-", [step.added for step in shown]),
        ("tomato", "", [step.removed for step in shown]),
    ):
        heights = (math.ceil(_HALF_HEIGHT * math.sqrt(max(value, 0) / highest)) for value in values)
        back = "" if sign else "-"
        path = "".join(f"v{sign}{height}h{width}v{back}{height}h1" if height else f"h{width + 1}" for height in heights)
        lines.append(f"<path d='M0 {_HALF_HEIGHT}{path}' fill='{color}'/>")
    bottom = 2 * _HALF_HEIGHT + 12
    added, removed = (
        bytes_text(sum(values)) for values in zip(*((each.added, each.removed) for each in shown), strict=True)
    )
    caption = f"versions {shown[0].version} to {shown[-1].version}: {added} added, {removed} removed"
    lines.append(f"<text y='{bottom}'>{caption}</text>")
    return _image(title, lines, width=_CHART_WIDTH, height=bottom + 4)


def file_sizes_picture(histogram: FileSizeHistogram) -> str:
    """Return the distribution of file sizes as a picture; neighboring bins are merged if there are many."""
    picture = "no files"
    for most in range(MAX_BARS, 0, -1):
        bars = size_bars(histogram, most)
        if bars and len(picture := bars_picture("file sizes", bars)) <= MAX_CHARACTERS:
            break
    return picture


def size_bars(histogram: FileSizeHistogram, most: int = MAX_BARS) -> tuple[Bar, ...]:
    """Return the bins from the first to the last that has files; neighbors are merged until at most `most` remain."""
    starts, counts = histogram.sorted_bin_boundaries, histogram.file_counts
    filled = [index for index, count in enumerate(counts) if count]
    if not filled:
        return ()
    after = filled[-1] + 1
    cuts = [*range(filled[0], after, math.ceil((after - filled[0]) / most)), after]
    limits = [bytes_text(start) for start in starts]
    bars = []
    for first, end in pairwise(cuts):
        label = f"{limits[first]} - {limits[end]}" if end < len(limits) else f"from {limits[first]}"
        count = sum(counts[first:end])
        bars.append(Bar(label=label, value=count, text=f"{count:,}"))
    return tuple(bars)


def _xml(text: str) -> str:
    return escape(visible(text if len(text) <= _MAX_LABEL_LENGTH else f"{text[: _MAX_LABEL_LENGTH - 2]}.."))


def _image(title: str, lines: Iterable[str], *, width: int, height: int) -> str:
    size = f"width='{width}' height='{height}'"
    style = "font-family='sans-serif' font-size='11' fill='gray'"
    svg = f"<svg xmlns='http://www.w3.org/2000/svg' {size} {style}>{''.join(lines)}</svg>"
    # Between angle brackets, a Markdown link may contain spaces. Other characters that end or unescape it are encoded.
    return f"![{title}](<data:image/svg+xml,{quote(svg, safe=chr(32) + _KEPT)}>)"


_KEPT = "=':/,.;()-+!"
