from __future__ import annotations

from collections.abc import Callable

import pytest

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
