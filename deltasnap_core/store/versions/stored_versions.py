"""Decides which stored versions are current. Pure: it uses only the names from one listing of the store.

A generation contains the versions of one log. A table that is dropped and created again starts a
generation without a parent: no earlier stored version is current any more. A table that is restored from a backup, or
rolled back and extended, starts a generation that forks off the previous one. The stored versions up to the last common
one stay current and are not moved.
"""

from __future__ import annotations

from dataclasses import dataclass

from deltasnap_core.once import once
from deltasnap_core.ranges import VersionRanges
from deltasnap_core.store.format.layout import (
    ForkPoint,
    ManifestName,
    fork_of,
    forked_name,
    generation_name,
    generation_ordinal,
)


@dataclass(frozen=True, kw_only=True)
class StoredVersions:
    """The names of all stored versions of a table.

    manifests: of all generations, ascending by generation, then version.
    forks:     the generations with a fork marker; some may have no manifest yet.
    kept:      the first versions that pruning kept: earlier ones of their generations were pruned.
    """

    manifests: tuple[ManifestName, ...]
    forks: tuple[str, ...] = ()
    kept: tuple[ManifestName, ...] = ()

    @once
    def generations(self) -> tuple[str, ...]:
        """Every generation, the newest last."""
        return tuple(sorted({*self.forks, *(name.generation for name in self.manifests)}))

    @property
    def current_generation(self) -> str | None:
        """The newest generation; None: nothing was ever stored."""
        return max(self.generations, default=None)

    @once
    def current(self) -> tuple[ManifestName, ...]:
        """The current versions, ascending: those of the newest generation, and those it shares."""
        newest = self.current_generation
        return () if newest is None else self.lineage(newest)

    def lineage(self, generation: str) -> tuple[ManifestName, ...]:
        """Return the versions of a generation and those it shares, ascending.

        Its own versions take precedence over its parent's.
        """
        by_generation: dict[str, list[ManifestName]] = {}
        for name in self.manifests:
            by_generation.setdefault(name.generation, []).append(name)
        current: dict[int, ManifestName] = {}
        for ancestor, limit in self.ancestry(generation):
            for name in by_generation.get(ancestor, ()):
                if limit is None or name.version <= limit:
                    current.setdefault(name.version, name)
        return tuple(current[version] for version in sorted(current))

    def ancestry(self, generation: str) -> tuple[tuple[str, int | None], ...]:
        """Return a generation and its ancestors, each with its last shared version (None: all versions)."""
        found: list[tuple[str, int | None]] = [(generation, None)]
        while (fork := fork_of(found[-1][0])) is not None:
            parents = [name for name in self.generations if generation_ordinal(name) == fork.parent]
            if not parents or parents[-1] >= found[-1][0]:
                break
            limit = found[-1][1]
            found.append((parents[-1], fork.version if limit is None else min(limit, fork.version)))
        return tuple(found)

    @property
    def pruned_before(self) -> int:
        """The version before which current versions were pruned; 0: none. Others that are missing were lost."""
        newest = self.current_generation
        limits = {} if newest is None else dict(self.ancestry(newest))
        firsts = ((name.version, limits[name.generation]) for name in self.kept if name.generation in limits)
        return max((first if limit is None else min(first, limit + 1) for first, limit in firsts), default=0)

    def lost_after(self, version: int) -> VersionRanges:
        """Return the versions after `version` that were stored when the table was last written to.

        They may belong to a generation that is not an ancestor of the current one: if a log is rolled back twice to the
        same version, the second fork does not descend from the first.
        """
        names = self.lineage(self.written_generations[-1]) if self.written_generations else ()
        return VersionRanges.of(name.version for name in names if name.version > version)

    @property
    def written_generations(self) -> tuple[str, ...]:
        """The generations with their own versions, the newest last.

        A fork without versions after its fork point marks a log that was rolled back and has no new commits.
        """
        written = {
            name.generation
            for name in self.manifests
            if (fork := fork_of(name.generation)) is None or name.version > fork.version
        }
        return tuple(sorted(written))

    def in_use(self, keep_generations: int) -> frozenset[str]:
        """Return the latest generations, and those that they forked off."""
        return frozenset(name for kept in self._latest(keep_generations) for name, _ in self.ancestry(kept))

    def pruned(self, keep: int | None, keep_generations: int) -> StoredVersions:
        """Return the versions that `prune` keeps, for the same arguments."""
        whole, in_use, current = self._latest(keep_generations), self.in_use(keep_generations), self.current
        shared = {name for generation in whole for name in self.lineage(generation)}
        old = set() if keep is None else set(current[:-keep])
        markers = [name for name in self.kept if name.generation in in_use]
        newest = self.current_generation
        if old and newest is not None:
            first = next(name.version for name in current if name not in old)
            others = (name for name in markers if name.generation != newest)
            markers = [*others, ManifestName(generation=newest, version=first)]
        return StoredVersions(
            manifests=tuple(
                name for name in self.manifests if name not in old and (name.generation in whole or name in shared)
            ),
            forks=tuple(generation for generation in self.forks if generation in in_use),
            kept=tuple(markers),
        )

    def _latest(self, count: int) -> tuple[str, ...]:
        """Return the `count` latest generations with their own versions, and the forks between them."""
        oldest = min(self.written_generations[-count:], default="")
        return tuple(generation for generation in self.generations if generation >= oldest)

    @property
    def fork_point(self) -> int | None:
        """The last version that the newest generation shares with its parent; None: it has no parent."""
        fork = None if self.current_generation is None else fork_of(self.current_generation)
        return None if fork is None else fork.version

    def next_generation(self, table_id: str) -> str:
        """Return the name of a new generation that shares nothing with the stored ones."""
        return generation_name(self._next_ordinal(), table_id)

    def forked_generation(self, version: int) -> str:
        """Return the name of a new generation that shares the current versions up to `version`."""
        newest = self.generations[-1]
        parents = [name for name, _ in self.ancestry(newest)]
        # A generation may have its own versions before its fork point, if they were stored after the fork.
        needed = {name.generation for name in self.manifests if name.version <= version}
        shared = (name for name in parents if name in needed or _begins_before(fork_of(name), version))
        parent = next(shared, parents[-1])
        fork = ForkPoint(parent=generation_ordinal(parent), version=version)
        return forked_name(self._next_ordinal(), fork, newest)

    def _next_ordinal(self) -> int:
        newest = self.current_generation
        return 1 if newest is None else generation_ordinal(newest) + 1


def _begins_before(fork: ForkPoint | None, version: int) -> bool:
    return fork is None or fork.version < version
