"""Builders for the tests of small files."""

from __future__ import annotations

from deltasnap_core.support import OptimizeCandidate


def candidate(day: str, files: int, files_after: int) -> OptimizeCandidate:
    return OptimizeCandidate(
        partition={"day": day},
        files=files,
        small_files=files,
        small_bytes=1,
        files_with_deletes=0,
        rewritten_files=files,
        rewritten_bytes=1,
        files_after=files_after,
        statement=f"OPTIMIZE delta.`/t` WHERE `day` = '{day}'",
    )
