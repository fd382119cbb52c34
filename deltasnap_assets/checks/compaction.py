"""The effect of `OPTIMIZE` on the partitions of a table, exact or estimated."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from deltasnap_assets.texts import markdown_code
from deltasnap_core import target_file_size_bytes

if TYPE_CHECKING:
    from deltasnap_assets.checks.partition_files import PartitionFiles
    from deltasnap_core import OptimizeCandidate

_MAX_NAME_LENGTH = 2000


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
    """The partitions to compact, the largest reduction of files first. is_exact: whether each file was examined."""

    partitions: Sequence[CompactedPartition]
    is_exact: bool

    @classmethod
    def exact(cls, candidates: Iterable[OptimizeCandidate]) -> Compaction:
        """Return the compaction of candidates in order, without those that only lose deleted rows."""
        found = (
            CompactedPartition(
                text="a partition with a binary value" if each.statement is None else _code(each.statement),
                files=each.files,
                files_after=each.files_after,
            )
            for each in candidates
            if each.files_after < each.files
        )
        return cls(partitions=tuple(found), is_exact=True)

    @classmethod
    def estimated(
        cls, partitions: Sequence[PartitionFiles], num_partitions: int, configuration: Mapping[str, str]
    ) -> Compaction | None:
        """Return an estimate: the files of a partition become as many as its bytes fill.

        partitions: the known ones of `num_partitions`. configuration: of the table.
        None: not all partitions are known, or the estimate finds nothing to compact.
        """
        if len(partitions) < num_partitions:
            return None
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
        return cls(partitions=smaller, is_exact=False) if smaller else None


def _code(text: str) -> str:
    return markdown_code(text, _MAX_NAME_LENGTH)
