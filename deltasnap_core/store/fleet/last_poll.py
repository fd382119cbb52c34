"""LastPoll: the result of the last poll of a table, as one small JSON document beside its manifests.

The condition of a log can change without a new version, so no manifest contains it. Runs, polls and schedules record
their findings here. The fleet shows them without reading the logs, and later polls read what was examined and reported.
Only the manifests determine which versions are stored.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Any

from pydantic import BeforeValidator, SkipValidation, model_validator

from deltasnap_core.log.condition.problem import Problem, Where, pairs
from deltasnap_core.log.condition.problem_kinds import ProblemKind, Severity
from deltasnap_core.protocol.json_records import JsonRecord, Long, is_json_kind, json_text
from deltasnap_core.protocol.json_text import decode_json
from deltasnap_core.ranges import VersionRanges
from deltasnap_core.redaction import redacted, safe_repr
from deltasnap_core.storage.urls import is_local, local_path, to_url
from deltasnap_core.store.fleet.timeline import Points, VersionPoint
from deltasnap_core.store.format.layout import ManifestName

POLL_FORMAT = 1
MAX_TEXT_LENGTH = 2000
DEFAULT_SMALL_FILE_BYTES = 16 * 1024 * 1024


def _ranges_of(values: object) -> object:
    try:
        return VersionRanges(tuple((int(first), int(last)) for first, last in values))  # type: ignore[attr-defined]
    except (TypeError, ValueError) as error:
        raise ValueError("expected pairs of versions") from error


Ranges = Annotated[VersionRanges, SkipValidation, BeforeValidator(_ranges_of)]


@safe_repr
@dataclass(frozen=True, slots=True, kw_only=True)
class TableProblem(JsonRecord):
    """One problem of a table, as the store records it.

    check: the check or other source that found it. text: the problem in sentences. advice: what to do.
    kind: of a problem of the log; None: found by a check, or unknown to this release.
    file, line, at, versions, facts: `Problem.where`, `Problem.versions` and `Problem.facts`, for a problem of the log.
    """

    json_name = "problem"

    check: str
    severity: Severity
    text: str
    advice: str = ""
    kind: ProblemKind | None = None
    file: str | None = None
    line: Long | None = None
    at: Ranges = field(default_factory=VersionRanges)
    versions: Ranges = field(default_factory=VersionRanges)
    facts: Mapping[str, str | int] = field(default_factory=dict)

    @classmethod
    def of(cls, problem: Problem, check: str) -> TableProblem:
        """Return a problem of the log. Its texts and facts are cut to a length that can be stored."""
        return cls(
            check=check,
            severity="error" if problem.mark == "error" else "warning",
            text=_stored_text(problem.text),
            advice=_stored_text(problem.advice),
            kind=problem.kind,
            file=problem.where.file,
            line=problem.where.line,
            at=problem.where.versions,
            versions=problem.versions,
            facts={name: _stored_text(fact) if isinstance(fact, str) else fact for name, fact in problem.facts.items()},
        )

    @property
    def problem(self) -> Problem | None:
        """The problem of the log; None: a check found it, or its kind is unknown.

        An earlier release recorded only the texts. They are the facts then.
        """
        if self.kind is None:
            return None
        where = Where(file=self.file, line=self.line, versions=self.at)
        facts = self.facts or {"text": self.text, "advice": self.advice}
        return Problem(kind=self.kind, where=where, versions=self.versions, facts=facts)

    def to_json(self) -> dict[str, Any]:
        """Return the JSON object. Texts are without credentials, and truncated."""
        values = {**JsonRecord.to_json(self), "text": _stored_text(self.text), "advice": _stored_text(self.advice)}
        ranges = {name: pairs(found) for name in ("at", "versions") if (found := getattr(self, name))}
        details = {**ranges, **({"facts": dict(self.facts)} if self.facts else {})}
        return {name: value for name, value in values.items() if name not in ("at", "versions", "facts")} | details

    @model_validator(mode="before")
    @classmethod
    def _of_known_kind(cls, values: object) -> object:
        """Return the fields without a kind that this release does not know."""
        is_unknown = isinstance(values, Mapping) and values.get("kind") not in {*ProblemKind}
        return {**values, "kind": None} if is_unknown and isinstance(values, Mapping) else values


@safe_repr
@dataclass(frozen=True, slots=True, kw_only=True)
class StaleRule(JsonRecord):
    """When a table is stale: its last commit is older than `patience_ms`. check, advice: to be shown then."""

    json_name = "staleRule"

    patience_ms: Long
    check: str
    advice: str = ""


def _points_of(values: object) -> object:
    try:
        if isinstance(values, Mapping):
            return {
                ManifestName(generation=generation, version=int(version)): _point(point)
                for generation, versions in values.items()
                for version, point in versions.items()
            }
    except (AttributeError, TypeError, ValueError) as error:
        raise ValueError(f"points: {error}") from error
    raise ValueError("points: expected an object")


def _point(values: Any) -> VersionPoint:
    timestamp, size = values
    if not isinstance(timestamp, int) or not isinstance(size, int):
        raise ValueError(f"expected a time and a size, found {values!r}")
    return VersionPoint(timestamp=timestamp, size_in_bytes=size)


@safe_repr
@dataclass(frozen=True, slots=True, kw_only=True)
class LastPoll(JsonRecord):
    """What the store records about a table when its log was read last. Times are in ms since the epoch.

    polled_at_ms:     when the log of the table was last polled or read.
    examined_at_ms:   when it was last read completely for faults: every commit, and every page of its newest
                      checkpoint; None: unknown.
    examined_checkpoint: identifies the newest checkpoint whose pages were read for faults; None: unknown.
    latest_version:   the latest version of the log at that time; None: unknown.
    last_commit_ms:   the time of its commit; None: unknown.
    checked_version:  the newest stored version when checks were last evaluated; None: never, or its log was replaced.
    checked_inputs:   identifies the settings and the checkpoint that these checks used; None: unknown.
    unchecked_since_ms: when a poll first found a version after `checked_version`; None: it found none.
    problems:         the current problems, the latest first; empty: none was found.
    stale_rule:       None: the table never counts as stale.
    small_file_bytes: a file below this size counts as small.
    facts_version:    the version of the two facts below; None: they are unknown.
    vacuum_bytes:     the bytes of files past their retention; None: unknown. Beyond 64 bits, it is stored as unknown.
    counted_files:    facts from a pass over the files of a version, as JSON values of the caller; None: none are
                      recorded.
    owners:           of the table, as configured.
    path:             URL of the table, without credentials.
    points:           times and sizes of some stored versions, so that their manifests need not be read again.
    """

    json_name = "poll"

    polled_at_ms: Long
    examined_at_ms: Long | None = None
    examined_checkpoint: str | None = None
    latest_version: Long | None = None
    last_commit_ms: Long | None = None
    checked_version: Long | None = None
    checked_inputs: str | None = None
    unchecked_since_ms: Long | None = None
    problems: tuple[TableProblem, ...] = ()
    stale_rule: StaleRule | None = None
    small_file_bytes: Long = DEFAULT_SMALL_FILE_BYTES
    facts_version: Long | None = None
    vacuum_bytes: Long | None = None
    counted_files: Mapping[str, Any] | None = field(default=None, repr=False)
    owners: tuple[str, ...] = ()
    path: str | None = None
    points: Annotated[Points, BeforeValidator(_points_of)] = field(default_factory=dict, repr=False)

    @classmethod
    def from_bytes(cls, content: bytes) -> LastPoll:
        """Return the poll from the bytes of its document. Errors: ValueError stating the problem."""
        values = decode_json(content)
        found = values.get("format") if isinstance(values, Mapping) else None
        if found != POLL_FORMAT:
            raise ValueError(f"expected format {POLL_FORMAT}, found {found!r}")
        return cls.from_json(values)

    def is_elsewhere(self, path: str) -> bool:
        """Return whether this is the poll of a table at another path. A path that is not recorded may be the same.

        Links of a local path are resolved.
        """
        return self.path is not None and _place(self.path) != redacted(_place(path))

    def to_bytes(self) -> bytes:
        """Return the document: UTF-8 JSON."""
        has_bytes = is_json_kind(self.vacuum_bytes, int)
        written = replace(self, vacuum_bytes=self.vacuum_bytes if has_bytes else None, points={})
        values = {**written.to_json(), "path": self.path and redacted(self.path), "points": _points_json(self.points)}
        return json_text({"format": POLL_FORMAT, **values}).encode()


def _place(path: str) -> str:
    url = to_url(path)
    return os.path.realpath(local_path(url)) if is_local(url) else url


def _stored_text(text: str) -> str:
    return redacted(text)[:MAX_TEXT_LENGTH]


def _points_json(points: Points) -> dict[str, dict[str, Sequence[int]]]:
    by_generation: dict[str, dict[str, Sequence[int]]] = {}
    for name, point in points.items():
        by_generation.setdefault(name.generation, {})[str(name.version)] = list(point)
    return by_generation
