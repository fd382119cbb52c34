"""The effect of `OPTIMIZE` on the partitions of a table, exact or estimated."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from deltasnap_assets.texts import markdown_code
from deltasnap_core import target_file_size_bytes

if TYPE_CHECKING:
    from deltasnap_assets.checks.partition_files import PartitionFiles
    from deltasnap_core import OptimizeCandidate

_MAX_NAME_LENGTH = 2000
_NAMED_PARTITIONS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactedPartition:
    """A partition to compact: its statement or its name as Markdown, and its files before and after."""

    text: str
    files: int
    files_after: int

    @property
    def lost(self) -> int:
        """The reduction of files."""
        return self.files - self.files_after


@dataclass(frozen=True, slots=True, kw_only=True)
class Compaction:
    """The effect of compacting all partitions.

    partitions:     a few, those with the largest reduction of files, the largest first.
    num_partitions: the number of partitions to compact. lost: the reduction of files in all of them.
    is_exact:       whether each file was examined.
    """

    partitions: tuple[CompactedPartition, ...]
    num_partitions: int
    lost: int
    is_exact: bool

    @classmethod
    def _of(cls, found: Sequence[CompactedPartition], *, is_exact: bool) -> Self:
        lost = sum(each.lost for each in found)
        return cls(partitions=tuple(found[:_NAMED_PARTITIONS]), num_partitions=len(found), lost=lost, is_exact=is_exact)

    @classmethod
    def exact(cls, candidates: Iterable[OptimizeCandidate]) -> Compaction:
        """Return the compaction of candidates in order, without those that only lose deleted rows."""
        found = [
            CompactedPartition(
                text="a partition with a binary value" if each.statement is None else _code(each.statement),
                files=each.files,
                files_after=each.files_after,
            )
            for each in candidates
            if each.files_after < each.files
        ]
        return cls._of(found, is_exact=True)

    @classmethod
    def estimated(cls, partitions: Iterable[PartitionFiles], configuration: Mapping[str, str]) -> Compaction | None:
        """Return an estimate: the files of a partition become as many as its bytes fill.

        partitions: all. configuration: of the table. None: the estimate finds nothing to compact.
        """
        target = target_file_size_bytes(configuration)
        found = (
            CompactedPartition(
                text=_code(each.label) if each.values else "the table",
                files=each.num_files,
                files_after=min(each.num_files, max(1, -(-each.size_in_bytes // target))),
            )
            for each in partitions
        )
        smaller = sorted((each for each in found if each.lost), key=lambda each: -each.lost)
        return cls._of(smaller, is_exact=False) if smaller else None


def _code(text: str) -> str:
    return markdown_code(text, _MAX_NAME_LENGTH)
