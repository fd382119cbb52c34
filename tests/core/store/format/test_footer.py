"""The footers of Parquet files of the store."""

from __future__ import annotations

from io import BytesIO

import pytest

from deltasnap_core.log.checkpoints import parquet_footer
from deltasnap_core.store.format.footer import footer_digest, read_footer

FOOTER = b"a footer" + (8).to_bytes(4, "little") + b"PAR1"


def test_digest_of_a_footer_is_that_of_earlier_releases() -> None:
    assert footer_digest(FOOTER) == "f2fb4f92164eb8d84efebafbe74cbe17"


@pytest.mark.parametrize("tail_bytes", [12, 16, 1000])
def test_footer_is_the_end_of_the_file_however_much_is_read_first(
    tail_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parquet_footer, "_TAIL_BYTES", tail_bytes)
    for rows in (b"", b"rows"):
        content = rows + FOOTER
        assert read_footer(BytesIO(content), len(content), footer_digest(FOOTER)) == FOOTER


@pytest.mark.parametrize(
    "content",
    [b"", b"PAR1", b"rows", FOOTER[1:], b"rows" + FOOTER[:-1] + b"2", b"rows" + FOOTER[:-1]],
    ids=["empty", "magic only", "rows only", "longer than the file", "other magic", "truncated"],
)
def test_file_that_does_not_end_like_parquet_is_an_error(content: bytes) -> None:
    with pytest.raises(OSError, match="expected the end of a Parquet file"):
        read_footer(BytesIO(content), len(content))


def test_other_footer_than_the_written_one_is_an_error() -> None:
    with pytest.raises(OSError, match="expected the footer that was written"):
        read_footer(BytesIO(FOOTER), len(FOOTER), footer_digest(FOOTER[1:]))
