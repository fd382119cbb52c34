"""What a person wants to see of a commit: who made it, how and with what, and some of the files that it changed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any

from deltasnap_core.log.commit_batch import CommitBatch, iterate_lines, parse_line
from deltasnap_core.protocol.commit_info import CommitInfo
from deltasnap_core.protocol.file_names import commit_version
from deltasnap_core.storage.log_store import LogStore

MOST_FILES = 5
MOST_CHARACTERS = 2000
MOST_ENTRIES = 50

# A commit may hold a million actions: no more of them are looked at than a sample needs.
_MOST_LINES = 50
_NUMBERS = ("version", "in_commit_timestamp", "timestamp", "read_version", "is_blind_append")
_TEXTS = (
    "user_id",
    "user_name",
    "operation",
    "cluster_id",
    "isolation_level",
    "user_metadata",
    "engine_info",
    "txn_id",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangedFile:
    """A file that a commit added (`change` is "+") or removed ("-"). size: bytes; None: the commit does not say."""

    change: str
    path: str
    size: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitSummary:
    """The provenance of a commit and a sample of the files that it names, both bounded.

    info:   None: the commit has no commitInfo. Texts are cut, maps have their first entries, `job`, `notebook`,
            `tags` and unknown fields are left out.
    sample: the first files that the commit names, in its order; none where its beginning names none.
    """

    info: CommitInfo | None = None
    sample: tuple[ChangedFile, ...] = ()

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> CommitSummary:
        """From what `to_json` gave."""
        info = values.get("info")
        sample = tuple(ChangedFile(change=change, path=path, size=size) for change, path, size in values["sample"])
        return cls(info=None if info is None else CommitInfo.from_json(info), sample=sample)

    def to_json(self) -> dict[str, Any]:
        """As plain JSON values; `from_json` gives an equal summary."""
        sample = [[file.change, file.path, file.size] for file in self.sample]
        return {"info": None if self.info is None else self.info.to_json(), "sample": sample}


def summaries(store: LogStore, batch: CommitBatch) -> dict[int, CommitSummary]:
    """Return the summary of each commit of a batch, by version; reads again only the beginning of large commits.

    Errors: CorruptLogError naming file and line.
    """
    infos = commit_infos(store, batch)
    samples = _samples(store, batch)
    return {
        version: CommitSummary(info=_bounded(infos.get(version)), sample=samples.get(version, ()))
        for version in (commit_version(file.path) for file in batch.files)
    }


def commit_infos(store: LogStore, batch: CommitBatch) -> dict[int, CommitInfo]:
    """Return the first commitInfo of each commit, whole, by version; commits without one left out."""
    found: dict[int, CommitInfo] = {}
    lines = batch.lines_matching("commitInfo")
    paths = {commit_version(file.path): file.path for file in batch.files}
    for version, number, line in zip(*(lines[name].to_pylist() for name in lines.schema.names), strict=True):
        if version not in found:
            _add_info(found, version, parse_line(paths[version], number, line))
    for commit in batch.large:
        version = commit_version(commit.path)
        for number, line in iterate_lines(store, commit):
            if "commitInfo" in line:
                _add_info(found, version, parse_line(commit.path, number, line))
                if version in found:
                    break
    return found


def _add_info(found: dict[int, CommitInfo], version: int, action: Mapping[str, Any]) -> None:
    if isinstance(values := action.get("commitInfo"), dict):
        found[version] = CommitInfo.from_json(values)


def _samples(store: LogStore, batch: CommitBatch) -> dict[int, tuple[ChangedFile, ...]]:
    found: dict[int, tuple[ChangedFile, ...]] = {}
    paths = {commit_version(file.path): file.path for file in batch.files}
    for commit in batch.large:
        actions = (parse_line(commit.path, number, line) for number, line in iterate_lines(store, commit))
        found[commit_version(commit.path)] = _sample(actions)
    versions = batch.lines["commit_version"].to_numpy()
    for version in dict.fromkeys(versions.tolist()):
        start, end = versions.searchsorted([version, version + 1])
        lines = batch.lines.slice(start, min(end - start, _MOST_LINES)).to_pylist()
        found[version] = _sample(parse_line(paths[version], row["line_number"], row["line"]) for row in lines)
    return found


def _sample(actions: Iterable[Mapping[str, Any]]) -> tuple[ChangedFile, ...]:
    return tuple(islice(_changed_files(islice(actions, _MOST_LINES)), MOST_FILES))


def _changed_files(actions: Iterable[Mapping[str, Any]]) -> Iterator[ChangedFile]:
    for action in actions:
        for name, change in (("add", "+"), ("remove", "-")):
            if file := action.get(name):
                size = file.get("size")
                yield ChangedFile(change=change, path=_cut(file["path"]), size=size if isinstance(size, int) else None)


def _bounded(info: CommitInfo | None) -> CommitInfo | None:
    """Return a commitInfo that takes some kilobytes at most, whatever a writer has put in it."""
    if info is None:
        return None
    shown: dict[str, Any] = {name: getattr(info, name) for name in _NUMBERS}
    shown |= {name: _cut(text) for name in _TEXTS if (text := getattr(info, name)) is not None}
    shown |= {name: _first_entries(getattr(info, name)) for name in ("operation_parameters", "operation_metrics")}
    return CommitInfo(**shown)


def _first_entries(values: Mapping[str, str | None] | None) -> dict[str, str | None] | None:
    if values is None:
        return None
    first = islice(values.items(), MOST_ENTRIES)
    return {_cut(name): None if text is None else _cut(text) for name, text in first}


def _cut(text: str) -> str:
    return text if len(text) <= MOST_CHARACTERS else f"{text[: MOST_CHARACTERS - 1]}…"
