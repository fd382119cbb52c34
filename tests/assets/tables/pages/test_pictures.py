from __future__ import annotations

import re
from urllib.parse import unquote

import pytest

from deltasnap_assets.tables.pages.pictures import (
    MAX_CHARACTERS,
    Bar,
    VersionStep,
    bars_picture,
    file_sizes_picture,
    most_bars_picture,
    size_bars,
    versions_picture,
)
from deltasnap_core import FileSizeHistogram
from tests.assets.tables.pages.pictures_builders import texts

KIB = 1024


def lengths_of(picture: str) -> list[int]:
    """The lengths of the bars in a chart."""
    return [int(length) for length in re.findall(r"h(\d+)v13h-\1z", unquote(picture))]


def histogram(*counts: int) -> FileSizeHistogram:
    starts = tuple(2**n if n else 0 for n in range(len(counts)))
    return FileSizeHistogram(sorted_bin_boundaries=starts, file_counts=counts, total_bytes=counts)


def test_bars_of_sizes_cover_all_files_without_gaps() -> None:
    bars = size_bars(histogram(0, 0, 3, 0, 2, 0))
    assert [(each.label, each.value, each.text) for each in bars] == [
        ("4 B - 8 B", 3, "3"),
        ("8 B - 16 B", 0, "0"),
        ("16 B - 32 B", 2, "2"),
    ]
    assert size_bars(histogram(0, 0)) == ()


def test_many_bins_are_merged() -> None:
    bars = size_bars(histogram(*[1000] * 23), most=10)
    assert [each.text for each in bars] == ["3,000"] * 7 + ["2,000"]
    assert [each.label for each in bars[:2]] == ["0 B - 8 B", "8 B - 64 B"]
    assert bars[-1].label == "from 2 MiB"


@pytest.mark.parametrize("sizes", [[1], [5] * 9, [10**n for n in range(13)], [0, 2**40], range(0, 10**6, 7)], ids=str)
def test_chart_of_file_sizes_is_short_enough_to_be_shown_without_a_click(sizes: list[int]) -> None:
    picture = file_sizes_picture(FileSizeHistogram.of_sizes(sizes))
    assert len(picture) <= MAX_CHARACTERS
    shown = texts(picture)
    assert sum(int(text.replace(",", "")) for text in shown[1::2]) == len(sizes)


def test_version_without_files_is_described_as_none() -> None:
    assert file_sizes_picture(FileSizeHistogram.of_sizes([])) == "no files"


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


STYLE = "font-family='sans-serif' font-size='11' fill='gray'"


def test_bars_are_an_image_with_each_bar_on_the_line_of_its_texts() -> None:
    picture = bars_picture("file sizes", [Bar(label="a<b", value=10, text="10%"), Bar(label="c", value=5, text="5")])
    assert unquote(picture) == (
        f"![file sizes](<data:image/svg+xml,<svg xmlns='http://www.w3.org/2000/svg' width='390' height='34' {STYLE}>"
        "<path d='M120 2h150v13h-150zM120 19h75v13h-75z' fill='slateblue'/>"
        "<text x='0' y='12'>a&lt;b</text><text x='275' y='12'>10%</text>"
        "<text x='0' y='29'>c</text><text x='200' y='29'>5</text></svg>>)"
    )
    assert picture.startswith("![file sizes](<data:image/svg+xml,%3Csvg xmlns='http://www.w3.org/2000/svg' width=")
    assert "10%25" in picture


def test_long_label_is_truncated_to_the_width_before_the_bars() -> None:
    picture = bars_picture("bytes", [Bar(label=label, value=1, text="") for label in ("x" * 20, "x" * 21)])
    assert texts(picture)[::2] == ["x" * 20, "x" * 18 + ".."]


def test_versions_are_columns_above_and_below_a_line_with_their_sum_underneath() -> None:
    steps = [VersionStep(version=n, operation="WRITE", added=n, removed=4 - n) for n in (4, 1, 0)]
    assert unquote(versions_picture("bytes", steps)) == (
        f"![bytes](<data:image/svg+xml,<svg xmlns='http://www.w3.org/2000/svg' width='360' height='106' {STYLE}>"
        "<path d='M0 45v-45h11v45h1v-23h11v23h1h12' fill='seagreen'/>"
        "<path d='M0 45h12v39h11v-39h1v45h11v-45h1' fill='tomato'/>"
        "<text y='102'>versions 4 to 0: 5 B added, 7 B removed</text></svg>>)"
    )


@pytest.mark.parametrize(("number", "shown"), [(10, 10), (11, 10)])
def test_chart_has_at_most_ten_bars(number: int, shown: int) -> None:
    bars = [Bar(label=f"{n}", value=n, text="") for n in range(number)]
    assert most_bars_picture("b", bars, 10_000) == (bars_picture("b", bars[:10]), shown)
    assert len(size_bars(histogram(*[1] * number))) == (10 if number == 10 else 6)


def test_steps_without_changes_are_a_line() -> None:
    steps = [VersionStep(version=n, operation="WRITE", added=0, removed=-1) for n in (4, 5)]
    picture = unquote(versions_picture("bytes", steps))
    assert re.findall(r"<path d='([^']*)'", picture) == ["M0 45h12h12"] * 2


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


def test_a_single_bar_is_shown_even_if_it_does_not_fit() -> None:
    bars = [Bar(label="x", value=n, text="y") for n in (2, 1)]
    picture, count = most_bars_picture("bytes", bars, 100)
    assert (picture, count) == (bars_picture("bytes", bars[:1]), 1)
    assert most_bars_picture("bytes", bars[:0]) == (bars_picture("bytes", []), 0)


def test_as_many_bins_are_shown_as_fit() -> None:
    many = histogram(*range(1, 40))
    shown = len(texts(file_sizes_picture(many))) // 2
    more = size_bars(many, shown + 1)
    assert len(size_bars(many, shown)) == shown
    assert len(more) == shown or len(bars_picture("file sizes", more)) > MAX_CHARACTERS
