"""A summary of a commit for people: author, time, operation, engine, and some of the changed files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

from deltasnap_core.log.commits.commit_batch import ChangedFile, CommitBatch
from deltasnap_core.log.commits.data_changes import UNKNOWN_SCHEMA, data_changes
from deltasnap_core.protocol.commit_info import CommitInfo
from deltasnap_core.protocol.json_records import JsonRecord, texts
from deltasnap_core.redaction import safe_repr

MAX_FILES = 5
MAX_CHARACTERS = 2000
MAX_ENTRIES = 50

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


@safe_repr
@dataclass(frozen=True, slots=True, kw_only=True)
class CommitSummary(JsonRecord):
    """The provenance of a commit and a sample of its files, both limited in size.

    info:   None: the commit has no commitInfo. Long texts are cut, maps keep their first entries. `tags` and unknown
            fields are left out.
    sample: the first files that the commit adds or removes, in commit order.
    data_change: whether the commit changes data, see `data_changes`; None: unknown.
    """

    json_name = "commit"

    info: CommitInfo | None
    sample: tuple[ChangedFile, ...] = ()
    data_change: bool | None = None


def summaries(batch: CommitBatch, schema_before: object = UNKNOWN_SCHEMA) -> dict[int, CommitSummary]:
    """Return the summary of each commit of a batch, by version. Errors: CorruptLogError naming file and line.

    schema_before: see `data_changes`.
    """
    infos, samples, changes = batch.commit_infos(), batch.samples(MAX_FILES), data_changes(batch, schema_before)
    return {
        version: CommitSummary(
            info=_bounded(info), sample=tuple(map(_shortened, samples[version])), data_change=changes[version]
        )
        for version, info in infos.items()
    }


def _shortened(file: ChangedFile) -> ChangedFile:
    return replace(file, path=_cut(file.path))


def _bounded(info: CommitInfo | None) -> CommitInfo | None:
    """Return a commitInfo limited to some kilobytes: a writer may store anything in it."""
    if info is None:
        return None
    shown: dict[str, Any] = {name: getattr(info, name) for name in _NUMBERS}
    shown |= {name: _cut(text) for name in _TEXTS if (text := getattr(info, name)) is not None}
    shown |= {name: _first_entries(getattr(info, name)) for name in ("operation_parameters", "operation_metrics")}
    shown |= {name: _first_entries(texts(getattr(info, name) or {})) or None for name in ("job", "notebook")}
    return CommitInfo(**shown)


def _first_entries(values: Mapping[str, str | None] | None) -> dict[str, str | None] | None:
    if values is None:
        return None
    first = islice(values.items(), MAX_ENTRIES)
    return {_cut(name): None if text is None else _cut(text) for name, text in first}


def _cut(text: str) -> str:
    return text if len(text) <= MAX_CHARACTERS else f"{text[: MAX_CHARACTERS - 1]}…"
