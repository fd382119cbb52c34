"""Forks of a log that was restored from a backup or rolled back, possibly with new commits afterwards.

What Dagster recorded about the versions after the fork belongs to the old log and does not count.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

_MOST = 3  # a tag value has at most 63 characters


@dataclass(frozen=True, slots=True, kw_only=True)
class Fork:
    """A fork of a log. version: the last common version. after_event: the id of the last event before the fork."""

    version: int
    after_event: int


def with_fork(forks: Sequence[Fork], version: int, after_event: int) -> tuple[Fork, ...]:
    """Return the forks of a log with a new one, ascending. It replaces the forks at the same and later versions.

    after_event: forks at the same version have different events if a version was materialized in between. Otherwise
    they are the same fork.
    If there are too many forks, the oldest two are merged. Some versions are then materialized again.
    """
    kept = [*(fork for fork in forks if fork.version < version), Fork(version=version, after_event=after_event)]
    while len(kept) > _MOST:
        kept[:2] = [Fork(version=kept[0].version, after_event=kept[1].after_event)]
    return tuple(kept)


def forks_text(forks: Sequence[Fork]) -> str:
    """Return forks as a tag value."""
    return "_".join(f"{fork.version}.{fork.after_event}" for fork in forks)


def forks_of_text(text: str | None) -> tuple[Fork, ...]:
    """Return the forks from a text of `forks_text`; empty if the tag was missing."""
    pairs = (part.split(".") for part in text.split("_")) if text else ()
    return tuple(Fork(version=int(version), after_event=int(event)) for version, event in pairs)


def materialized_since(
    forks: Sequence[Fork], began_after: int | None, materialized_after: Callable[[int | None], frozenset[int]]
) -> frozenset[int]:
    """Return the versions whose materialization counts: up to the fork, or recorded after the fork.

    materialized_after: returns the versions materialized after an event (None: at any time).
    """
    done = materialized_after(began_after)
    for fork in forks:
        done = frozenset(v for v in done if v <= fork.version) | frozenset(
            v for v in materialized_after(fork.after_event) if v > fork.version
        )
    return done
