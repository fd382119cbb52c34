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

from pydantic import BeforeValidator, SkipValidation

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


@dataclass(frozen=True, slots=True, kw_only=True)
class _RecordedProblem(JsonRecord):
    """The JSON object of a problem: `Problem.where`, `Problem.versions` and `Problem.facts` identify and describe it.

    check, severity, text, advice: for readers of the document, and for a kind that this release does not know.
    """

    json_name = "problem"

    check: str
    severity: Severity
    text: str
    advice: str = ""
    kind: str | None = None
    file: str | None = None
    line: Long | None = None
    name: str | None = None
    at: Ranges = field(default_factory=VersionRanges)
    versions: Ranges = field(default_factory=VersionRanges)
    facts: Mapping[str, str | int] = field(default_factory=dict)

    @property
    def problem(self) -> Problem:
        """The problem. If another release recorded an unknown kind, or other facts, the texts are the facts."""
        severity, text, advice = self.severity, self.text, self.advice
        if self.kind is None or self.kind not in {*ProblemKind}:
            return Problem.of_check(check=self.check, severity=severity, text=text, advice=advice)
        where = Where(file=self.file, line=self.line, name=self.name, versions=self.at)
        found = Problem(kind=ProblemKind(self.kind), where=where, versions=self.versions, facts=self.facts)
        texts = {"severity": severity, "text": text, "advice": advice, "reason": ""}
        return found if found.has_all_facts else replace(found, facts=texts)


def problem_json(problem: Problem) -> dict[str, Any]:
    """Return a problem as a JSON object. Texts are cut to a length that can be stored."""
    facts = {name: _stored_text(fact) if isinstance(fact, str) else fact for name, fact in problem.facts.items()}
    problem, where = replace(problem, facts=facts), problem.where
    values = {
        "check": problem.check,
        "severity": problem.severity,
        "text": _stored_text(problem.text),
        "advice": _stored_text(problem.advice),
        "kind": problem.kind.value,
    }
    place = {"file": where.file, "line": where.line, "name": where.name}
    ranges = {"at": pairs(where.versions), "versions": pairs(problem.versions)}
    return values | {name: value for name, value in {**place, **ranges, "facts": facts}.items() if value}


def _problems_of(values: object) -> object:
    if not isinstance(values, list | tuple):
        return values  # rejected by Pydantic
    return tuple(each if isinstance(each, Problem) else _RecordedProblem.from_json(each).problem for each in values)


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
class DataChange(JsonRecord):
    """The last version of a log that changes data, or may have changed it: a commit that is gone counts.

    known_to:   up to this version, the commits were compared.
    generation: of that version in the store.
    """

    json_name = "dataChange"

    version: Long
    known_to: Long
    generation: str


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
    data_change:      the last version that changes data; None: unknown.
    problems:         the current problems, the latest first; empty: none was found.
    stale_after_ms:   the age of the last commit after which the table is stale; None: it never is.
    small_file_bytes: a file below this size counts as small.
    facts_version:    the version of the three facts below; None: they are unknown.
    vacuum_bytes:     the bytes of files past their retention; None: unknown. Beyond 64 bits, it is stored as unknown.
    time_travel_bytes: the bytes of other files that only earlier versions read; None: as for `vacuum_bytes`.
    counted_files:    facts from a pass over the files of a version, as JSON values of the caller; None: none are
                      recorded.
    column_totals:    what the statistics of the files of a stored version add up to (`ColumnTotals`), with its
                      `generation`; None: not recorded.
    owners:           of the table, as configured.
    path:             URL of the table, without credentials, or its name in a catalog.
    location:         URL of a table that only a Spark session can find by its name; None: of another table.
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
    data_change: DataChange | None = None
    problems: Annotated[tuple[Annotated[Problem, SkipValidation], ...], BeforeValidator(_problems_of)] = ()
    stale_after_ms: Long | None = None
    small_file_bytes: Long = DEFAULT_SMALL_FILE_BYTES
    facts_version: Long | None = None
    vacuum_bytes: Long | None = None
    time_travel_bytes: Long | None = None
    counted_files: Mapping[str, Any] | None = field(default=None, repr=False)
    column_totals: Mapping[str, Any] | None = field(default=None, repr=False)
    owners: tuple[str, ...] = ()
    path: str | None = None
    location: str | None = None
    points: Annotated[Points, BeforeValidator(_points_of)] = field(default_factory=dict, repr=False)

    @classmethod
    def from_bytes(cls, content: bytes) -> LastPoll:
        """Return the poll from the bytes of its document. Errors: ValueError stating the problem."""
        values = decode_json(content)
        found = values.get("format") if isinstance(values, Mapping) else None
        if found != POLL_FORMAT:
            raise ValueError(f"expected format {POLL_FORMAT}, found {found!r}")
        rule = values.get("staleRule")  # of an earlier release
        return cls.from_json({"staleAfter": rule.get("patience"), **values} if isinstance(rule, Mapping) else values)

    def is_elsewhere(self, path: str) -> bool:
        """Return whether this is the poll of a table at another path. A path that is not recorded may be the same.

        Links of a local path are resolved.
        """
        return self.path is not None and _place(self.path) != redacted(_place(path))

    def to_bytes(self) -> bytes:
        """Return the document: UTF-8 JSON."""
        written = replace(
            self,
            vacuum_bytes=self.vacuum_bytes if is_json_kind(self.vacuum_bytes, int) else None,
            time_travel_bytes=self.time_travel_bytes if is_json_kind(self.time_travel_bytes, int) else None,
            problems=(),
            points={},
        )
        values = {
            **written.to_json(),
            "problems": [problem_json(problem) for problem in self.problems],
            "path": self.path and redacted(self.path),
            "points": _points_json(self.points),
        }
        return json_text({"format": POLL_FORMAT, **values}).encode()


def _place(path: str) -> str:
    if "/" not in path:
        return path  # a name in a catalog
    url = to_url(path)
    return os.path.realpath(local_path(url)) if is_local(url) else url


def _stored_text(text: str) -> str:
    return redacted(text)[:MAX_TEXT_LENGTH]


def _points_json(points: Points) -> dict[str, dict[str, Sequence[int]]]:
    by_generation: dict[str, dict[str, Sequence[int]]] = {}
    for name, point in points.items():
        by_generation.setdefault(name.generation, {})[str(name.version)] = list(point)
    return by_generation
