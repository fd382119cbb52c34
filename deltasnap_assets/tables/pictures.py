"""Pictures as Dagster's pages show them: SVG in an image of Markdown, its text escaped. Pure.

Dagster's UI drops HTML and inline SVG from Markdown; an image of a `data:` URL it shows. Colours are readable on its
light and its dark background.
"""

from __future__ import annotations

import base64
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from xml.sax.saxutils import escape

from deltasnap_assets.tables.byte_units import bytes_text
from deltasnap_assets.texts import visible
from deltasnap_core import FileSizeHistogram

MOST_BARS = 12

_INK, _BAR, _ADDED, _REMOVED = "#7d7f8a", "#6f66e8", "#2fa36b", "#d9534f"
_ROW, _FONT, _LABEL_WIDTH, _BAR_WIDTH, _TEXT_WIDTH = 18, 11, 130, 190, 130
_MOST_LABEL = 22
_CHART_WIDTH, _HALF_HEIGHT = 450, 55


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """One bar: its label, its length in any unit, and what is written after it."""

    label: str
    value: float
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionStep:
    """What one version did: the bytes or files that came and went, and what made it."""

    version: int
    operation: str
    added: int
    removed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SizeBin:
    """How many files are of a size from `start` on, in bytes, up to `end`; None: there is no upper end."""

    start: float
    end: float | None
    count: int


def bars_picture(title: str, bars: Sequence[Bar]) -> str:
    """Return horizontal bars, one below the other, as Markdown; `title` is what is read where images are not shown."""
    longest = max((bar.value for bar in bars), default=0) or 1
    lines = []
    for row, bar in enumerate(bars):
        middle = row * _ROW + 13
        width = 0 if bar.value <= 0 else max(bar.value / longest * _BAR_WIDTH, 1)
        lines += [
            _text(_LABEL_WIDTH - 6, middle, bar.label, anchor="end"),
            f'<rect x="{_LABEL_WIDTH}" y="{row * _ROW + 3}" width="{width:.1f}" height="{_ROW - 5}" fill="{_BAR}"/>',
            _text(_LABEL_WIDTH + width + 5, middle, bar.text),
        ]
    return _image(title, lines, width=_LABEL_WIDTH + _BAR_WIDTH + _TEXT_WIDTH, height=len(bars) * _ROW + 4)


def versions_picture(title: str, steps: Sequence[VersionStep]) -> str:
    """Return what came (up) and went (down) with each version, ascending, as Markdown; each bar tells its operation."""
    highest = max((max(step.added, step.removed) for step in steps), default=0) or 1
    width = _CHART_WIDTH / max(len(steps), 1)
    lines = []
    for place, step in enumerate(steps):
        up, down = (_HALF_HEIGHT * math.sqrt(value / highest) for value in (step.added, step.removed))
        x, drawn = place * width, max(width - 1, 0.5)
        told = f"<title>{_xml(f'{step.version}: {step.operation}')}</title>"
        for y, height, colour in ((_HALF_HEIGHT - up, up, _ADDED), (_HALF_HEIGHT, down, _REMOVED)):
            box = f'x="{x:.1f}" y="{y:.1f}" width="{drawn:.1f}" height="{height:.1f}" fill="{colour}"'
            lines.append(f"<rect {box}>{told}</rect>")
    lines.append(f'<path d="M0 {_HALF_HEIGHT}H{_CHART_WIDTH}" stroke="{_INK}" stroke-width="0.5"/>')
    bottom = 2 * _HALF_HEIGHT + 14
    if steps:
        lines += [
            _text(0, bottom, f"version {steps[0].version}"),
            _text(_CHART_WIDTH, bottom, f"version {steps[-1].version}", anchor="end"),
        ]
    return _image(title, lines, width=_CHART_WIDTH, height=bottom + 6)


def file_sizes_picture(histogram: FileSizeHistogram) -> str:
    """Return how many files are of which size, in bins that fit them."""
    ends = [*histogram.sorted_bin_boundaries[1:], None]
    bins = zip(histogram.sorted_bin_boundaries, ends, histogram.file_counts, strict=True)
    return sizes_picture([SizeBin(start=start, end=end, count=count) for start, end, count in bins])


def sizes_picture(bins: Iterable[SizeBin]) -> str:
    """Return bins of sizes, ascending and without a gap, as bars: neighbours together where there are many."""
    fitted = fitted_bins(tuple(bins))
    if not fitted:
        return "no files"
    return bars_picture(
        "file sizes", [Bar(label=_range_text(each), value=each.count, text=_files(each.count)) for each in fitted]
    )


def fitted_bins(bins: Sequence[SizeBin], most: int = MOST_BARS) -> tuple[SizeBin, ...]:
    """Return the bins from the first to the last that has files, as many neighbours as it takes made one of."""
    filled = [index for index, each in enumerate(bins) if each.count]
    if not filled:
        return ()
    shown = bins[filled[0] : filled[-1] + 1]
    together = math.ceil(len(shown) / most)
    groups = [shown[index : index + together] for index in range(0, len(shown), together)]
    return tuple(
        SizeBin(start=group[0].start, end=group[-1].end, count=sum(each.count for each in group)) for group in groups
    )


def _range_text(each: SizeBin) -> str:
    start = bytes_text(round(each.start))
    return f"{start} and more" if each.end is None else f"{start} – {bytes_text(round(each.end))}"


def _files(count: int) -> str:
    return f"{count:,} file" + ("" if count == 1 else "s")


def _text(x: float, y: float, text: str, anchor: str = "start") -> str:
    shown = text if len(text) <= _MOST_LABEL + 12 else f"{text[:_MOST_LABEL]}…"
    return f'<text x="{x:.1f}" y="{y}" text-anchor="{anchor}">{_xml(shown)}</text>'


def _xml(text: str) -> str:
    return escape(visible(text))


def _image(title: str, lines: Iterable[str], *, width: float, height: float) -> str:
    style = f'font-family="sans-serif" font-size="{_FONT}" fill="{_INK}"'
    size = f'width="{width}" height="{height}" viewBox="0 0 {width} {height}"'
    svg = f'<svg xmlns="http://www.w3.org/2000/svg" {size} {style}>{"".join(lines)}</svg>'
    return f"![{title}](data:image/svg+xml;base64,{base64.b64encode(svg.encode()).decode()})"
