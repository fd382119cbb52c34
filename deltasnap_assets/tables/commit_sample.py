"""A few of the files that a commit added and removed, to look at."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

from deltasnap_core.log.commit_batch import iterate_lines, parse_line
from deltasnap_core.storage.log_store import FileStatus, LogStore

# A commit may hold a million actions: no more of them are looked at than a sample needs.
_MOST_LINES = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangedFile:
    """A file that a commit added (`change` is "+") or removed ("-"). size: bytes; None: the commit does not say."""

    change: str
    path: str
    size: int | None


def sample_changes(store: LogStore, commit: FileStatus, most: int = 5) -> tuple[ChangedFile, ...]:
    """The first files that a commit names, in its order, `most` of them; none where its beginning names none."""
    return tuple(islice(changed_files(store, commit, _MOST_LINES), most))


def changed_files(store: LogStore, commit: FileStatus, most_lines: int | None = None) -> Iterator[ChangedFile]:
    """Give every file that a commit names, in its order; those of its first lines where `most_lines` says how many."""
    for number, line in islice(iterate_lines(store, commit), most_lines):
        action = parse_line(commit.path, number, line)
        for name, change in (("add", "+"), ("remove", "-")):
            if file := action.get(name):
                yield ChangedFile(change=change, path=file["path"], size=file.get("size"))
