"""Where a log forked: restored from a backup, or rolled back, and perhaps written on. What Dagster recorded of the
versions after the fork is of a log that is no more, and does not count.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

_MOST = 3  # a tag holds 63 characters


@dataclass(frozen=True, slots=True, kw_only=True)
class Fork:
    """version: the last that the two logs have in common. after_event: the id of the last event before the fork."""

    version: int
    after_event: int


def with_fork(forks: Sequence[Fork], version: int, after_event: int) -> tuple[Fork, ...]:
    """Return the forks of a log, ascending, with a new one, which outdates those at later versions.

    The oldest are joined where they are many: some versions then count as not materialized that are.
    """
    if forks and forks[-1].version == version:
        return tuple(forks)  # told already, and nothing was stored since
    kept = [*(fork for fork in forks if fork.version < version), Fork(version=version, after_event=after_event)]
    while len(kept) > _MOST:
        kept[:2] = [Fork(version=kept[0].version, after_event=kept[1].after_event)]
    return tuple(kept)


def forks_text(forks: Sequence[Fork]) -> str:
    """Return forks as the value of a tag."""
    return "_".join(f"{fork.version}.{fork.after_event}" for fork in forks)


def forks_of_text(text: str | None) -> tuple[Fork, ...]:
    """Return the forks from what `forks_text` gave; none where there was no such tag."""
    pairs = (part.split(".") for part in text.split("_")) if text else ()
    return tuple(Fork(version=int(version), after_event=int(event)) for version, event in pairs)


def materialized_since(
    forks: Sequence[Fork], began_after: int | None, materialized_after: Callable[[int | None], frozenset[int]]
) -> frozenset[int]:
    """Return the versions whose materialization counts: up to a fork any, after it those that were made since.

    materialized_after: the versions materialized after an event (None: ever).
    """
    done = materialized_after(began_after)
    for fork in forks:
        done = frozenset(v for v in done if v <= fork.version) | frozenset(
            v for v in materialized_after(fork.after_event) if v > fork.version
        )
    return done
