"""LogListing: the files of `_delta_log`, sorted by kind."""

from __future__ import annotations

import hashlib
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace

from deltasnap_core.errors import VersionNotFoundError
from deltasnap_core.log.listing.catalog_commits import NO_CATALOG, CatalogCommits, ratified_by
from deltasnap_core.log.listing.checkpoint_provider import NO_CHECKPOINT, CheckpointProvider
from deltasnap_core.protocol.log_files.checkpoint_files import complete_checkpoints, incomplete_checkpoints
from deltasnap_core.protocol.log_files.file_names import LOG_FOLDER, LogFileKind, ParsedLogPath, listing_prefix
from deltasnap_core.ranges import VersionRanges
from deltasnap_core.redaction import safe_repr
from deltasnap_core.storage.log_store import FileStatus, LogStore
from deltasnap_core.storage.urls import join_url

_AFTER_DIGITS = ":"


class CommitRun(tuple[FileStatus, ...]):
    """Commits of consecutive versions, ascending, as a listing found them: a segment of them is not checked again."""

    __slots__ = ()


@safe_repr
@dataclass(frozen=True, slots=True, kw_only=True)
class LogListing:
    """The log files of a range of versions. Unknown files are left out, and empty ones except commits and checkpoints.

    commits:     by version, ascending.
    checkpoints: complete checkpoints, the best first.
    compactions: in order of their names.
    checksums:   by version.
    first:       the version where the listing started; earlier files were not listed.
    unusable_checkpoints: those that lack a part or are empty, with the reason; newest first within each of the two
                 groups. They have the files that exist.
    """

    log_path: str
    commits: Mapping[int, FileStatus]
    checkpoints: tuple[CheckpointProvider, ...]
    compactions: tuple[FileStatus, ...]
    checksums: Mapping[int, FileStatus]
    first: int = 0
    unusable_checkpoints: tuple[tuple[CheckpointProvider, str], ...] = ()
    _versions: tuple[int, ...] = field(init=False, repr=False, compare=False)
    """The versions of the commits, for searches."""
    _files: tuple[FileStatus, ...] = field(init=False, repr=False, compare=False)
    """The commits, for slices."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "_versions", tuple(self.commits))
        object.__setattr__(self, "_files", tuple(self.commits.values()))

    @property
    def latest_version(self) -> int | None:
        """The latest version that has a commit or a checkpoint; None: there is neither."""
        return max([*self._versions[-1:], *(checkpoint.version for checkpoint in self.checkpoints)], default=None)

    @property
    def newest_checkpoint(self) -> str | None:
        """An identifier of the newest checkpoint, usable or not. It changes with its files. None: there is none."""
        known = [*self.checkpoints, *(each for each, _ in self.unusable_checkpoints)]
        newest = max((each.version for each in known), default=None)
        files = (file for each in known if each.version == newest for file in each.files)
        found = {(file.name, file.size, file.modification_time) for file in files}
        return None if newest is None else hashlib.sha256(repr(sorted(found)).encode()).hexdigest()[:40]

    def without_checkpoints(self, names: Set[str]) -> LogListing:
        """Return the listing without the checkpoints that have one of these files."""
        kept = (each for each in self.checkpoints if names.isdisjoint(file.name for file in each.files))
        return replace(self, checkpoints=tuple(kept)) if names else self

    def has_version(self, version: int) -> bool:
        """Whether there is a commit or a checkpoint of the version."""
        return version in self.commits or any(checkpoint.version == version for checkpoint in self.checkpoints)

    def reaches_back(self, first: int) -> bool:
        """Return whether version `first` and all later existing versions can be loaded from the listing."""
        return not self.first or (self.first <= first and not self.best_checkpoint(first).is_empty)

    def commits_between(self, first: int, last: int) -> tuple[FileStatus, ...]:
        """Return the existing commits of the versions first to last, ascending: a CommitRun if all of them exist."""
        found = self._files[bisect_left(self._versions, first) : bisect_right(self._versions, last)]
        return CommitRun(found) if len(found) == last - first + 1 else found

    def best_checkpoint(self, version: int) -> CheckpointProvider:
        """Return the checkpoint to replay a version from: the newest up to that version, the best of its version."""
        place = bisect_right(self.checkpoints, -version - 1, key=lambda checkpoint: -checkpoint.version)
        return self.checkpoints[place] if place < len(self.checkpoints) else NO_CHECKPOINT

    def starts_before(self, version: int) -> tuple[int, ...]:
        """Return the versions up to `version` that have a checkpoint and all later commits up to it, ascending.

        Only -1 if all commits since version 0 exist. Requires a listing from version 0.
        """
        missing = next((each for each in range(version, -1, -1) if each not in self.commits), -1)
        checkpoints = {checkpoint.version for checkpoint in self.checkpoints}
        return (-1,) if missing < 0 else tuple(sorted(each for each in checkpoints if missing <= each <= version))

    def reconstructable_versions(self) -> tuple[int, ...]:
        """Return the versions that can be reconstructed, ascending: from a checkpoint, or from all commits since 0.

        This includes the versions between a checkpoint and the next missing commit. Requires a listing from version 0.
        """
        checkpoints = {checkpoint.version for checkpoint in self.checkpoints}
        found: list[int] = []
        for version in sorted(checkpoints.union(self.commits)):
            previous = found[-1] if found else -1
            if version in checkpoints or previous == version - 1:
                found.append(version)
        return tuple(found)


def list_log(
    store: LogStore,
    log_path: str,
    *,
    first: int = 0,
    last: int | None = None,
    catalog: CatalogCommits = NO_CATALOG,
) -> LogListing:
    """Return the log files of the versions `first` to `last` (None: to the end), from one listing.

    catalog: its ratified commits replace published commits of the same version. Ratified commits outside the range are
             left out, and so is every file after its latest version. Of a store that asks the catalog, it is asked now:
             before the listing, so that a commit that is published in the meantime is in one of both.
    Errors: FileNotFoundError if there is no such folder; StorageError; CatalogError; VersionNotFoundError if a store
    that asks the catalog lacks its latest version.
    """
    asked = NO_CATALOG if catalog.is_known else ratified_by(store)
    catalog = catalog if catalog.is_known else asked
    if catalog.max_version is not None:
        last = catalog.max_version if last is None else min(last, catalog.max_version)
    commits: dict[int, FileStatus] = {}
    checksums: dict[int, FileStatus] = {}
    compactions: list[FileStatus] = []
    checkpoint_files: dict[str, tuple[ParsedLogPath, FileStatus]] = {}
    empty_checkpoints: dict[str, tuple[ParsedLogPath, FileStatus]] = {}
    statuses = store.list_from(join_url(log_path, listing_prefix(first)))
    for parsed, status in _files_until(statuses, last):
        if parsed.kind is LogFileKind.COMMIT:
            commits[parsed.version] = status
        elif parsed.kind is LogFileKind.CHECKSUM:
            checksums[parsed.version] = status
        elif parsed.kind is LogFileKind.COMPACTION:
            compactions.append(status)
        elif parsed.kind is LogFileKind.CHECKPOINT and not status.size:
            empty_checkpoints[parsed.name] = (parsed, status)
        elif parsed.kind is LogFileKind.CHECKPOINT:
            checkpoint_files[parsed.name] = (parsed, status)
    tail = catalog.by_version()
    ratified = {v: file for v, file in tail.items() if v >= first and (last is None or v <= last)}
    merged = {**commits, **ratified}
    listing = LogListing(
        log_path=log_path,
        commits={version: merged[version] for version in sorted(merged)},
        checkpoints=tuple(_checkpoints(checkpoint_files)),
        compactions=tuple(compactions),
        checksums=checksums,
        first=first,
        unusable_checkpoints=tuple(_unusable(checkpoint_files, empty_checkpoints)),
    )
    latest = asked.max_version
    if latest is not None and first <= latest == last and not listing.has_version(latest):
        raise VersionNotFoundError(path=table_path(log_path), version=latest, latest=listing.latest_version)
    return listing


def table_path(log_path: str) -> str:
    """Return the URL of the table whose log is at `log_path`."""
    return log_path.removesuffix(f"/{LOG_FOLDER}")


def _files_until(statuses: Iterable[FileStatus], last: int | None) -> Iterator[tuple[ParsedLogPath, FileStatus]]:
    """Yield the relevant log files up to a version. Stop listing when all further names are of later versions."""
    for status in statuses:
        if status.name >= _AFTER_DIGITS:  # names are sorted, and every log file starts with its version
            return
        parsed = ParsedLogPath.parse(status.name)
        if parsed is None:
            continue
        if last is not None and parsed.version > last:
            return
        # Crashed writers, and storages without atomic writes, leave empty files. An empty commit still makes a version.
        if status.size > 0 or parsed.kind in (LogFileKind.COMMIT, LogFileKind.CHECKPOINT):
            yield parsed, status


def _checkpoints(files: Mapping[str, tuple[ParsedLogPath, FileStatus]]) -> Iterator[CheckpointProvider]:
    for parts in complete_checkpoints(parsed for parsed, _ in files.values()):
        yield _checkpoint([files[part.name] for part in parts])


def _checkpoint(parts: Sequence[tuple[ParsedLogPath, FileStatus]]) -> CheckpointProvider:
    first = parts[0][0]
    return CheckpointProvider(
        version=first.version,
        files=tuple(status for _, status in parts),
        kind=first.checkpoint_kind,
        format="json" if first.extension == "json" else "parquet",
    )


def _unusable(
    files: Mapping[str, tuple[ParsedLogPath, FileStatus]], empty: Mapping[str, tuple[ParsedLogPath, FileStatus]]
) -> Iterator[tuple[CheckpointProvider, str]]:
    known = {**files, **empty}
    for part in sorted(empty.values(), key=lambda each: -each[0].version):
        yield _checkpoint([part]), "the file is empty"
    for parts in incomplete_checkpoints(parsed for parsed, _ in known.values()):
        num_parts = parts[0].num_parts or 1
        missing = VersionRanges.between(1, num_parts, {part.part or 1 for part in parts})
        word = "part" if len(missing) == 1 else "parts"
        reason = f"{word} {missing.text()} of {num_parts} {'is' if word == 'part' else 'are'} missing"
        yield _checkpoint([known[part.name] for part in parts]), reason
