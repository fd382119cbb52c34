"""Looking at a table's log for new commits: plain Python over a log store, never Spark, cheap when nothing is new."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, replace

from deltasnap_assets.settings.config import TableSettings
from deltasnap_core.errors import ActionNotFoundError, DeltaSnapError
from deltasnap_core.log.delta_history_manager import DeltaHistoryManager
from deltasnap_core.log.log_segment_builder import LogSegmentBuilder
from deltasnap_core.log.new_commits import look_from
from deltasnap_core.log.protocol_metadata import newest_protocol_and_metadata
from deltasnap_core.protocol.file_names import LOG_FOLDER, commit_file, commit_version
from deltasnap_core.storage.fsspec_log_store import FsspecLogStore
from deltasnap_core.storage.log_store import FileStatus, LogStore
from deltasnap_core.storage.urls import join_url, to_url


class LogRewrittenError(DeltaSnapError):
    """The log no longer has the commit `version` that was seen before, though the table is the same one."""

    def __init__(self, *, path: str, version: int, reason: str) -> None:
        self.path = path
        self.version = version
        self.reason = reason
        super().__init__(
            f"The log at {path} was rewritten: {reason}. What is stored is left as it is; "
            "to go on from the log as it is now, reset the cursor of the table's sensor."
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenCommit:
    """How far a log was followed, in a form that shows later whether it is still the same log.

    generation: the table's id. size, modification_time: of the commit file of `version`; None: it was gone already.
    """

    generation: str
    version: int
    size: int | None = None
    modification_time: int | None = None

    def to_text(self) -> str:
        """As the sensor's cursor holds it."""
        return json.dumps(asdict(self))

    @classmethod
    def from_text(cls, text: str) -> SeenCommit:
        """From what `to_text` gave. Errors: `ValueError` for anything else."""
        try:
            return cls(**json.loads(text))
        except TypeError as error:
            raise ValueError(f"not a cursor of this sensor: {text!r}") from error


@dataclass(frozen=True, slots=True, kw_only=True)
class LogSight:
    """What a look at a log showed.

    generation: the table's id. latest: its latest version. versions: those that can be loaded, ascending; after a look
    for news, the new ones only.
    """

    generation: str
    latest: int
    versions: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class LogWatch:
    """Follows the log of one table; keeps nothing between two calls."""

    store: LogStore
    log_path: str

    @classmethod
    def of(cls, table: TableSettings) -> LogWatch:
        """The watch over a configured table."""
        return cls(store=FsspecLogStore(table.storage_options), log_path=join_url(to_url(table.path), LOG_FOLDER))

    def look(self) -> LogSight:
        """Look at the whole log.

        Errors: those of finding and loading the latest version, where there is no table or its log is damaged.
        """
        builder = LogSegmentBuilder(store=self.store, log_path=self.log_path)
        segment = builder.build(hint=builder.read_hint())
        _, metadata = newest_protocol_and_metadata(self.store, segment)
        if metadata is None:
            raise ActionNotFoundError(action="metadata", version=segment.version, path=self.log_path)
        versions = DeltaHistoryManager(self.store, self.log_path).reconstructable_versions()
        return LogSight(generation=metadata.id, latest=segment.version, versions=tuple(versions))

    def look_for_news(self, seen: SeenCommit) -> LogSight | None:
        """What came after `seen`; None: nothing. Costs a look at that commit, the hint and what is new.

        A table dropped and created again is looked at as a whole: the sight is of another generation then.
        Errors: as `look`, and `LogRewrittenError`.
        """
        found = look_from(self.store, self.log_path, seen.version)
        if found.known is not None and _mark(seen.generation, seen.version, found.known) == seen:
            if versions := tuple(commit_version(commit.path) for commit in found.later):
                return LogSight(generation=seen.generation, latest=versions[-1], versions=versions)
            if not self._has_checkpoint_after(seen.version):
                return None
        sight = self.look()
        if sight.generation != seen.generation:
            return sight
        self._check_continues(seen, sight.latest, found.known)
        return replace(sight, versions=tuple(version for version in sight.versions if version > seen.version))

    def mark(self, generation: str, version: int) -> SeenCommit:
        """The mark to leave once everything up to `version` is dealt with."""
        return _mark(generation, version, self.store.status(join_url(self.log_path, commit_file(version))))

    def _has_checkpoint_after(self, version: int) -> bool:
        """Whether versions were skipped: their commits cleaned away, or lost."""
        hint = LogSegmentBuilder(store=self.store, log_path=self.log_path).read_hint()
        return hint is not None and hint.version > version

    def _check_continues(self, seen: SeenCommit, latest: int, commit: FileStatus | None) -> None:
        """Copying a table changes the times of its commits, cleaning its log deletes them: both are no rewriting."""
        if latest < seen.version:
            reason = f"it ended at version {seen.version} before and ends at version {latest} now"
            raise LogRewrittenError(path=self.log_path, version=seen.version, reason=reason)
        if commit is not None and seen.size is not None and commit.size != seen.size:
            reason = f"the commit of version {seen.version} had {seen.size} bytes before, it has {commit.size} now"
            raise LogRewrittenError(path=self.log_path, version=seen.version, reason=reason)


def _mark(generation: str, version: int, commit: FileStatus | None) -> SeenCommit:
    return SeenCommit(
        generation=generation,
        version=version,
        size=None if commit is None else commit.size,
        modification_time=None if commit is None else commit.modification_time,
    )
