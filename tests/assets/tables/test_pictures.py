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
    lengths = [int(length) for length in re.findall(r"h(\d+)v13h-\1z", unquote(bars_picture("bytes", bars)))]
    longest = max(lengths)
    assert longest > 0
    assert lengths == [0, longest / 5, longest, longest / 2]


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
