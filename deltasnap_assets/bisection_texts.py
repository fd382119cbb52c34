"""The result of `bisect` as text, for the terminal and for Dagster. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from deltasnap_assets.provenance import made_by
from deltasnap_assets.quantities import counted, time_text

if TYPE_CHECKING:
    from deltasnap_core import DeltaHistory
    from deltasnap_core.support import Bisection, Judgement

PARTS = ("user", "job", "notebook", "engine")
"""Who made a commit, as far as results show it."""
_MOST_FILES = 10


def bisection_lines(found: Bisection) -> Iterator[str]:
    """Yield a result as text: the version, then its commit and its files."""
    text_of = found.expectation.text_of
    held, failed = found.held, found.failed
    if failed is None and held is not None:
        yield f"Nothing to find: version {held.version} holds ({text_of(held.number or 0)})."
    elif held is None and failed is not None:
        yield f"Nothing to find: version {failed.version}, the good end, already fails ({text_of(failed.number or 0)})."
        unread = list(_unread(found.steps, before=failed.version))
        yield from unread
        tried = sum(step.version < failed.version for step in found.steps)
        if unread and tried < failed.version and not found.is_first:
            yield "Earlier versions may hold it. --first tries every one of them."
    elif held is not None and failed is not None:
        which = f"Version {failed.version}"
        if found.version is None:
            which = f"One of the versions {found.first_possible} to {found.last_possible}"
        numbers = text_of(held.number or 0), text_of(failed.number or 0)
        yield f"{which} broke it: version {held.version} has {numbers[0]}, version {failed.version} has {numbers[1]}."
        yield from _unread(found.steps, after=held.version, before=failed.version)
        yield from _commit_lines(found.commit)
        for file in found.files[:_MOST_FILES]:
            change = "added" if file.is_added else "removed"
            yield f"  {'file':10} {file.path} ({change}, {counted(file.rows, 'matching row')})"
        if len(found.files) > _MOST_FILES:
            yield f"  {'':10} and {counted(len(found.files) - _MOST_FILES, 'file')} more"
        if not found.is_first:
            yield "It is the first one if all later versions fail too. --first judges every version in order."


def _commit_lines(commit: DeltaHistory | None) -> Iterator[str]:
    if commit is not None:
        by = made_by(commit)
        parts = {"committed": time_text(commit.timestamp), "operation": commit.operation}
        for name, text in (parts | {part: by.get(part) for part in PARTS}).items():
            if text:
                yield f"  {name:10} {text}"


def _unread(steps: Sequence[Judgement], *, before: int, after: int = -1) -> Iterator[str]:
    """Yield why versions between two others cannot be judged, for the last of them."""
    found = [step for step in steps if step.problem is not None and after < step.version < before]
    if found:
        last = max(found, key=lambda step: step.version)
        yield f"Version {last.version} cannot be judged: {last.problem}"
