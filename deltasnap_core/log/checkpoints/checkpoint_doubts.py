"""Doubts about an opened checkpoint: the hints of its version, `_last_checkpoint` and `.crc`, contradict it.

A checkpoint that was cut may still be readable: a file of JSON at the end of a line, a rewritten Parquet file.
"""

from __future__ import annotations

from dataclasses import dataclass

from deltasnap_core.errors import CorruptLogError
from deltasnap_core.log.checkpoints.checkpoint_contents import CheckpointContents
from deltasnap_core.log.checkpoints.checkpoint_pages import read_every_page
from deltasnap_core.log.checkpoints.parquet_footer import null_count
from deltasnap_core.log.checksum_file import read_checksum
from deltasnap_core.log.commits.action_lines import lines_with
from deltasnap_core.log.listing.checkpoint_provider import CheckpointProvider
from deltasnap_core.log.listing.log_segment_builder import LogSegmentBuilder
from deltasnap_core.protocol.log_files.file_names import LAST_CHECKPOINT, CheckpointKind
from deltasnap_core.protocol.log_files.last_checkpoint_info import LastCheckpointInfo


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointDoubt:
    """A contradiction between a checkpoint and the hints, of which none supports it.

    is_certain: whether two statements agree that the checkpoint is damaged. A single hint may be wrong itself.
    is_of_files: whether the hints contradict only the number of files.
    """

    error: CorruptLogError
    is_certain: bool
    is_of_files: bool


def doubt_about(
    builder: LogSegmentBuilder, provider: CheckpointProvider, contents: CheckpointContents
) -> CheckpointDoubt | None:
    """Return why a checkpoint may be damaged, according to the hints; None: nothing contradicts it.

    Source: PROTOCOL.md, Last Checkpoint File; Version Checksum File.
    """
    found, hint = stated_files(contents), _hint_of(builder, provider)
    cut_from = _size_before_a_cut(hint, provider)
    stated = {LAST_CHECKPOINT: None if hint is None else hint.num_of_add_files}
    if found is not None and stated[LAST_CHECKPOINT] != found:
        checksum = read_checksum(builder.store, provider.checksum_file)
        stated["the .crc file"] = None if checksum is None else checksum.num_files
    known = {name: count for name, count in stated.items() if count is not None and found is not None}
    if known and found not in known.values():
        found = read_every_page(builder.store, contents).num_files  # the statistics of some writers are wrong
    wrong = {} if found in known.values() else known
    reasons = [f"expected {count} files, as {name} states, found {found}" for name, count in wrong.items()]
    if cut_from is not None:
        reasons.insert(0, f"expected {cut_from} bytes, as {LAST_CHECKPOINT} states, found {provider.files[0].size}")
    if not reasons:
        return None
    return CheckpointDoubt(
        error=CorruptLogError(path=provider.files[0].path, reason=reasons[0]),
        is_certain=len(reasons) > 1 and len({*wrong.values()}) == 1,
        is_of_files=cut_from is None,
    )


def stated_files(contents: CheckpointContents) -> int | None:
    """Return the number of files of a checkpoint according to its footers; None: one of them does not state it."""
    parts = (*contents.top_level, *contents.sidecars)
    footers = [part.metadata for part in parts if "add" in part.schema.names and part.metadata.num_rows]
    nulls = [(footer, null_count(footer, "add.path")) for footer in footers]
    counts = [int(footer.num_rows) - count for footer, count in nulls if count is not None]
    in_lines = int(lines_with(contents.lines, "add").num_rows)
    return in_lines + sum(counts) if len(counts) == len(nulls) else None


def names_checkpoint(hint: LastCheckpointInfo, checkpoint: CheckpointProvider) -> bool:
    """Return whether a hint is about a checkpoint: it has its version, and its file name or its number of parts."""
    if hint.version != checkpoint.version:
        return False
    if (name := named_file(hint)) is not None:
        return name in {file.name for file in checkpoint.files}
    return len(checkpoint.files) == (hint.parts or 1)


def named_file(hint: LastCheckpointInfo) -> str | None:
    """Return the name of the top-level file of a V2 checkpoint in a hint; None: it names none."""
    path = (hint.v2_checkpoint or {}).get("path")
    return path.rpartition("/")[2] if isinstance(path, str) else None


def _hint_of(builder: LogSegmentBuilder, provider: CheckpointProvider) -> LastCheckpointInfo | None:
    try:
        hint = provider.hint or builder.parse_hint()
    except (OSError, ValueError):  # `read_hint` warns of it where the hint is needed
        return None
    return hint if names_checkpoint(hint, provider) else None


def _size_before_a_cut(hint: LastCheckpointInfo | None, provider: CheckpointProvider) -> int | None:
    """Return the size of the top-level file in the hint if the file is smaller; None: it is not, or it is unknown.

    Two writers may write the same classic name with other sizes. Only one writes a name with a UUID.
    """
    if hint is None or provider.kind is not CheckpointKind.UUID or named_file(hint) is None:
        return None
    size = (hint.v2_checkpoint or {}).get("sizeInBytes")
    return size if isinstance(size, int) and provider.files[0].size < size else None
