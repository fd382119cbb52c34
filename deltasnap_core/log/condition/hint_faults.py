"""The faults of the hint `_last_checkpoint`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from deltasnap_core.log.condition.examined_files import ExaminedFiles
from deltasnap_core.log.condition.problem import Problem, Where
from deltasnap_core.log.condition.problem_kinds import ProblemKind
from deltasnap_core.log.listing.changing_log import list_again
from deltasnap_core.log.listing.checkpoint_provider import CheckpointProvider
from deltasnap_core.log.listing.log_segment_builder import LogSegmentBuilder
from deltasnap_core.protocol.log_files.file_names import LAST_CHECKPOINT
from deltasnap_core.protocol.log_files.last_checkpoint_info import LastCheckpointInfo
from deltasnap_core.redaction import redacted


def hint_faults(builder: LogSegmentBuilder, files: ExaminedFiles) -> Iterator[Problem]:
    """Yield the faults of `_last_checkpoint`. files: of the whole log."""
    listing = files.listing
    newest = listing.checkpoints[0].version if listing.checkpoints else -1
    try:
        hint = builder.parse_hint()
    except FileNotFoundError:
        return
    except (OSError, ValueError) as error:
        yield _hint_fault(f"it cannot be read: {error}")
        return
    unusable = {checkpoint.version for checkpoint, _ in listing.unusable_checkpoints}
    is_later = hint.version > newest and hint.version not in unusable
    # A writer may have written the checkpoint after the listing.
    if is_later and not list_again(builder.store, replace(listing, first=hint.version)).checkpoints:
        yield _hint_fault(f"it names the checkpoint of version {hint.version}, which is not in the log")
    named = [each for each in listing.checkpoints if each.version == hint.version]
    if named and not any(_names_checkpoint(hint, each) for each in named):
        reason = f"it names the checkpoint of version {hint.version} {_form(hint)}, which is not in the log"
        yield _hint_fault(reason, read_instead="the checkpoint in the log")
    if files.counted is None or not _names_checkpoint(hint, files.checkpoint):
        return
    _, num_files = files.counted
    if hint.num_of_add_files not in (None, num_files):
        stated = f"it states {hint.num_of_add_files} files in the checkpoint of version {hint.version}"
        yield _hint_fault(f"{stated}, not {num_files}", read_instead="the checkpoint in the log")


def _names_checkpoint(hint: LastCheckpointInfo, checkpoint: CheckpointProvider | None) -> bool:
    """Return whether a hint is about a checkpoint: it has its version, and its file name or its number of parts."""
    if checkpoint is None or hint.version != checkpoint.version:
        return False
    if (name := _named_file(hint)) is not None:
        return name in {file.name for file in checkpoint.files}
    return len(checkpoint.files) == (hint.parts or 1)


def _named_file(hint: LastCheckpointInfo) -> str | None:
    """Return the name of the top-level file of a V2 checkpoint in a hint; None: it names none."""
    path = (hint.v2_checkpoint or {}).get("path")
    return path.rpartition("/")[2] if isinstance(path, str) else None


def _form(hint: LastCheckpointInfo) -> str:
    if (name := _named_file(hint)) is not None:
        return f"in the file {redacted(name)}"
    return "in one file" if (hint.parts or 1) == 1 else f"in {hint.parts} parts"


def _hint_fault(reason: str, read_instead: str = "a listing of the whole log") -> Problem:
    where = Where.of(LAST_CHECKPOINT)
    return Problem.of(ProblemKind.BROKEN_HINT, where, reason=reason, read_instead=read_instead)
