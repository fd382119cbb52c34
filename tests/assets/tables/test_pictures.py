from __future__ import annotations

import re
from itertools import pairwise
from urllib.parse import unquote
from xml.etree import ElementTree

import pytest

from deltasnap_assets.checks.facts import SizeBin
from deltasnap_assets.tables.pages.pictures import (
    MAX_CHARACTERS,
    Bar,
    VersionStep,
    bars_picture,
    file_sizes_picture,
    fitted_bins,
    most_bars_picture,
    sizes_picture,
    versions_picture,
)
from deltasnap_core import FileSizeHistogram

KIB = 1024


def texts(picture: str) -> list[str]:
    """The text in a chart, which must be well-formed Markdown of one image."""
    before, _, svg = picture.partition("](<data:image/svg+xml,")
    assert before.startswith("![")
    assert not set("<>\\\n`").intersection(svg[:-2])
    root = ElementTree.fromstring(unquote(svg[:-2]))
    return [text.text or "" for text in root.iter("{http://www.w3.org/2000/svg}text")]


def lengths_of(picture: str) -> list[int]:
    """The lengths of the bars in a chart."""
    return [int(length) for length in re.findall(r"h(\d+)v13h-\1z", unquote(picture))]


def bins(*counts: int) -> list[SizeBin]:
    return [SizeBin(start=2**n, end=2 ** (n + 1), count=count) for n, count in enumerate(counts)]


def test_bins_cover_all_files_without_gaps() -> None:
    assert [each.count for each in fitted_bins(bins(0, 0, 3, 0, 2, 0))] == [3, 0, 2]
    assert fitted_bins(bins(0, 0)) == ()


def test_many_bins_are_merged() -> None:
    fitted = fitted_bins(bins(*[1] * 25), most=10)
    assert [each.count for each in fitted] == [3] * 8 + [1]
    assert fitted[0].start == 1
    assert all(one.end == other.start for one, other in pairwise(fitted))


@pytest.mark.parametrize("sizes", [[1], [5] * 9, [10**n for n in range(13)], [0, 2**40], range(0, 10**6, 7)], ids=str)
def test_chart_of_file_sizes_is_short_enough_to_be_shown_without_a_click(sizes: list[int]) -> None:
    picture = file_sizes_picture(FileSizeHistogram.of_sizes(sizes))
    assert len(picture) <= MAX_CHARACTERS
    shown = texts(picture)
    assert sum(int(text.replace(",", "")) for text in shown[1::2]) == len(sizes)


def test_version_without_files_is_described_as_none() -> None:
    assert file_sizes_picture(FileSizeHistogram.of_sizes([])) == sizes_picture([]) == "no files"


def test_text_of_a_log_is_escaped_in_a_chart() -> None:
    evil = "</text><script>&amp;\x1b[31m|`](x)\\"
    (label, text) = texts(bars_picture("bytes", [Bar(label=evil[:16], value=1, text="a & b")]))
    assert label == "</text><script>&"
    assert text == "a & b"


def test_lengths_of_bars_are_proportional_to_their_values() -> None:
    bars = [Bar(label=str(value), value=value, text="") for value in (0, 20, 100, 50)]
    assert lengths_of(bars_picture("bytes", bars)) == [0, 30, 150, 75]


def test_bars_without_a_value_have_no_length() -> None:
    assert lengths_of(bars_picture("bytes", [Bar(label="a", value=0, text=""), Bar(label="b", value=-1, text="")])) == [
        0,
        0,
    ]


def test_bar_is_on_the_line_of_its_texts() -> None:
    picture = unquote(bars_picture("bytes", [Bar(label=str(n), value=n, text=f"{n} B") for n in (10, 5)]))
    tops = [int(top) for top in re.findall(r"M120 (\d+)h", picture)]
    lines = [int(y) for y in re.findall(r"<text x='0' y='(\d+)'", picture)]
    assert all(top < line < top + 13 for top, line in zip(tops, lines, strict=True))
    assert re.findall(r"<text x='(\d+)' y='(\d+)'>\d+ B", picture) == [("275", str(lines[0])), ("200", str(lines[1]))]
    assert re.search(r"width='(\d+)' height='(\d+)'", picture).groups() == ("390", "34")  # type: ignore[union-attr]


def test_long_label_is_truncated_to_the_width_before_the_bars() -> None:
    picture = bars_picture("bytes", [Bar(label=label, value=1, text="") for label in ("x" * 20, "x" * 21)])
    assert texts(picture)[::2] == ["x" * 20, "x" * 18 + ".."]


def test_versions_are_columns_above_and_below_a_line_with_their_sum_underneath() -> None:
    steps = [VersionStep(version=n, operation="WRITE", added=n, removed=4 - n) for n in (4, 1, 0)]
    picture = unquote(versions_picture("bytes", steps))
    added, removed = re.findall(r"<path d='M0 45([^']*)'", picture)
    assert added == "v-45h11v45h1v-23h11v23h1h12"
    assert removed == "h12v39h11v-39h1v45h11v-45h1"
    assert re.search(r"<text y='(\d+)'", picture).group(1) == "102"  # type: ignore[union-attr]
    assert re.search(r"width='(\d+)' height='(\d+)'", picture).groups() == ("360", "106")  # type: ignore[union-attr]


def test_as_many_bars_are_shown_as_fit() -> None:
    bars = [Bar(label=f"day=2026-03-{n:02d}", value=n, text=f"{n} KiB, 10 files") for n in range(1, 31)]
    picture, count = most_bars_picture("bytes", bars)
    assert len(picture) <= MAX_CHARACTERS
    assert 5 <= count <= 10
    assert len(texts(picture)) == 2 * count


def test_last_versions_are_shown_as_additions_and_removals() -> None:
    steps = [VersionStep(version=n, operation="WRITE", added=n * KIB, removed=n % 3) for n in range(100)]
    picture = versions_picture("bytes", steps)
    assert len(picture) <= MAX_CHARACTERS
    assert texts(picture) == ["versions 70 to 99: 2.5 MiB added, 30 B removed"]
    assert versions_picture("bytes", []) == "no changes"
