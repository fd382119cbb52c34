"""Texts of a log as shown to users: without control characters, markup and credentials; spans, sizes and ratios."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from deltasnap_assets.quantities import bytes_text, counted, iso_time, percents, span_text, time_text
from deltasnap_assets.texts import (
    lines_joined,
    markdown_code,
    markdown_text,
    plain_of_markdown,
    secrets_hidden,
    visible,
    visible_value,
    without_secrets,
)
from deltasnap_core import CorruptLogError

SHOWN = {
    "plain": ("part-0.parquet", "part-0.parquet"),
    "terminal escape": ("\x1b[31mred\x07", r"\x1b[31mred\x07"),
    "C1 control": ("\x9b2J", r"\x9b2J"),
    "lines": ("a\r\nb\u2028c", r"a\r\nb\u2028c"),
    "bidirectional override": ("gnp.\u202eexe", r"gnp.\u202eexe"),
    "no character of XML": ("a\ufffe\uffff", r"a\ufffe\uffff"),
    "lone surrogate": ("a\ud800", r"a\ud800"),
    "letters of any script": ("größe 大 🚀", "größe 大 🚀"),
    "long": ("x" * 600, "x" * 500 + "… (100 more characters)"),
    "no text": (None, "None"),
}


@pytest.mark.parametrize("case", SHOWN)
def test_text_is_shown_without_control_characters(case: str) -> None:
    text, expected = SHOWN[case]
    assert visible(text) == expected
    visible(text).encode()


CODE = {
    "plain": ("a.parquet", "`a.parquet`"),
    "backtick": ("a`<img src=x>`b", "`` a`<img src=x>`b ``"),
    "backticks": ("``", "``` `` ```"),
    "pipe": ("a|b", r"`a\|b`"),
    "pipe that is escaped already": (r"a\|b", r"`a\\x7cb`"),
    "newline": ("a\n\n# b", r"`a\n\n# b`"),
    "empty": ("", "`  `"),
    "spaces": ("  ", "`    `"),
}


@pytest.mark.parametrize("case", CODE)
def test_code_span_can_contain_any_text(case: str) -> None:
    text, expected = CODE[case]
    assert markdown_code(text) == expected


def test_text_in_markdown_is_only_text() -> None:
    assert markdown_text("[x](javascript:1) <b>|*a*") == r"\[x\]\(javascript\:1\) \<b\>\|\*a\*"
    assert markdown_text("![i](http://h/i.png)\n") == r"\!\[i\]\(http\:\/\/h\/i\.png\)\\n"


def test_credentials_in_the_urls_of_a_text_are_redacted() -> None:
    reported = without_secrets(
        "No table at s3://me:hunter2@lake/events, nor at https://h/e?sig=hunter2&x=1 (see above)."
    )
    assert "hunter2" not in reported
    assert reported.startswith("No table at s3://")
    assert reported.endswith("(see above).")
    assert without_secrets("simplecache::s3://me:hunter2@lake/t") != "simplecache::s3://me:hunter2@lake/t"
    assert without_secrets("nothing/of: that@kind") == "nothing/of: that@kind"


@pytest.mark.slow
def test_redaction_of_megabytes_is_fast() -> None:
    assert without_secrets("d" * 10_000_000 + "://") == "d" * 10_000_000 + "://"


def test_propagated_error_loses_its_credentials_and_keeps_its_data() -> None:
    @secrets_hidden()
    def fail() -> None:
        try:
            raise FileNotFoundError(2, "No such file", "s3://me:hunter2@lake/t")
        except FileNotFoundError as error:
            raise CorruptLogError(path="s3://me:hunter2@lake/t", reason="gone") from error

    with pytest.raises(CorruptLogError) as raised:
        fail()
    assert "hunter2" not in f"{raised.value} {raised.value.__cause__}"
    assert raised.value.path == "s3://me:hunter2@lake/t"


@pytest.mark.parametrize("show", [visible, markdown_code, markdown_text])
def test_text_is_shown_without_credentials(show: Callable[[str], str]) -> None:
    shown = show("see https://ada:hunter2@host/db?token=hunter2")
    assert "host" in shown
    assert "hunter2" not in shown


def test_truncation_never_makes_a_text_longer() -> None:
    assert visible("x" * 122, 100) == "x" * 122
    assert visible("x" * 123, 100) == "x" * 100 + "… (23 more characters)"
    assert visible("x" * 130, 100) == "x" * 100 + "… (30 more characters)"


def test_markdown_is_shown_as_the_text_that_it_shows() -> None:
    text = "Run `a|b` in [x](http://h) <now>*."
    assert plain_of_markdown(f"{markdown_text(text)}\n\n{markdown_code('delta.`/t`')}") == f"{text} delta.`/t`"


def test_value_of_a_row_is_shown_unchanged() -> None:
    assert visible_value("https://ada:hunter2@host\x1b") == r"https://ada:hunter2@host\x1b"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Run. Partitions:\n- a: 2 files\n- b: 3 files", "Run. Partitions: a: 2 files; b: 3 files"),
        ("One.\n\nTwo.\n", "One. Two."),
        ("a\na", "a; a"),
        ("- `` OPTIMIZE delta.`/t` ``: 2 files\n- `x`", "OPTIMIZE delta.`/t`: 2 files; `x`"),
        ("", ""),
    ],
)
def test_text_of_several_lines_is_joined_to_one(text: str, expected: str) -> None:
    assert lines_joined(text) == expected


HOUR = 3_600_000


@pytest.mark.parametrize(
    ("milliseconds", "text"),
    [
        (-5, "0 seconds"),
        (999, "0 seconds"),
        (1000, "1 second"),
        (119_999, "119 seconds"),
        (120_000, "2 minutes"),
        (2 * HOUR - 1, "119 minutes"),
        (2 * HOUR, "2 hours"),
        (48 * HOUR - 1, "47 hours"),
        (48 * HOUR, "2 days"),
        (72 * HOUR - 1, "2 days"),
    ],
)
def test_span_is_shown_in_the_largest_unit_that_fits_twice(milliseconds: int, text: str) -> None:
    assert span_text(milliseconds) == text


@pytest.mark.parametrize(
    ("ratio", "limit", "expected"),
    [
        (0.5, 0.5, ("50%", "50%")),
        (0.514, 0.5, ("51%", "50%")),
        (0.501, 0.5, ("50.1%", "50.0%")),
        (0.8999, 0.9, ("89.99%", "90.00%")),
        (0.121, 0.125, ("12.1%", "12.5%")),
        (0.007, 0.005, ("0.7%", "0.5%")),
        (0.4, 1 / 3, ("40.000%", "33.333%")),
        (0.5 + 1e-9, 0.5, ("50.000%", "50.000%")),
    ],
)
def test_limit_is_shown_exactly_and_a_ratio_above_it_does_not_look_equal(
    ratio: float, limit: float, expected: tuple[str, str]
) -> None:
    assert percents(ratio, limit) == expected


def test_times_are_shown_to_the_second() -> None:
    assert (iso_time(1_700_000_000_999), time_text(1_700_000_000_999)) == (
        "2023-11-14T22:13:20+00:00",
        "2023-11-14 22:13:20 UTC",
    )
    assert (iso_time(1 << 62), time_text(1 << 62)) == (f"{1 << 62} ms",) * 2


def test_counts_have_the_plural_of_their_word() -> None:
    assert [counted(number, "file") for number in (0, 1, 2_048)] == ["0 files", "1 file", "2,048 files"]
    assert [counted(number, "process", "processes") for number in (1, 2)] == ["1 process", "2 processes"]


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1 KiB"),
        (1536, "1.5 KiB"),
        (1 << 20, "1 MiB"),
        (1 << 50, "1 PiB"),
        (1 << 61, "2048 PiB"),
    ],
)
def test_size_has_at_most_one_decimal(size: int, text: str) -> None:
    assert bytes_text(size) == text
