"""The effect of `OPTIMIZE` on the partitions of a table, exact or estimated."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from deltasnap_assets.texts import markdown_code
from deltasnap_core.support import target_file_size_bytes

if TYPE_CHECKING:
    from deltasnap_core.support import OptimizeCandidate

_MAX_NAME_LENGTH = 2000
_NAMED_PARTITIONS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionFiles:
    """The files of one partition of the table. values: by column, as in the log."""

    values: Mapping[str, str | None]
    num_files: int
    size_in_bytes: int

    @property
    def label(self) -> str:
        """Return the partition in the form of a path: `day=2026-03-02/country=de`."""
        return "/".join(f"{name}={'null' if value is None else value}" for name, value in self.values.items())


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactedPartition:
    """A partition to compact: its statement or its name as Markdown, and its files before and after."""

    text: str
    files: int
    files_after: int


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
    def exact(cls, candidates: Iterable[OptimizeCandidate]) -> Compaction:
        """Return the compaction of candidates in order, without those that only lose deleted rows."""
        found = [each for each in candidates if each.files_after < each.files]
        named = (
            CompactedPartition(
                text="a partition with a binary value" if each.statement is None else _code(each.statement),
                files=each.files,
                files_after=each.files_after,
            )
            for each in found[:_NAMED_PARTITIONS]
        )
        lost = sum(each.files - each.files_after for each in found)
        return cls(partitions=tuple(named), num_partitions=len(found), lost=lost, is_exact=True)

    @classmethod
    def estimated(cls, partitions: Iterable[PartitionFiles], configuration: Mapping[str, str]) -> Compaction | None:
        """Return an estimate: the files of a partition become as many as its bytes fill.

        partitions: all. configuration: of the table. None: the estimate finds nothing to compact.
        """
        target = target_file_size_bytes(configuration)
        sizes = ((each, max(1, -(-each.size_in_bytes // target))) for each in partitions)
        found = [(each.num_files - after, each, after) for each, after in sizes if after < each.num_files]
        if not found:
            return None
        named = (
            CompactedPartition(
                text=_code(each.label) if each.values else "the table", files=each.num_files, files_after=after
            )
            for _, each, after in heapq.nlargest(_NAMED_PARTITIONS, found, key=lambda one: one[0])
        )
        lost = sum(fewer for fewer, *_ in found)
        return cls(partitions=tuple(named), num_partitions=len(found), lost=lost, is_exact=False)


def _code(text: str) -> str:
    return markdown_code(text, _MAX_NAME_LENGTH)
