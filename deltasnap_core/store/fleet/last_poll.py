"""LastPoll: the result of the last poll of a table, as one small JSON document beside its manifests.

The condition of a table's log is not part of any stored version: it changes while no version is added. Runs, polls and
schedules record their findings here, so that the condition of many tables can be shown without reading their logs. The
document is for display only: the manifests alone determine which versions are stored.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from deltasnap_core.log.condition.fault import FaultKind
from deltasnap_core.protocol.json_fields import JsonFields, is_json_kind
from deltasnap_core.redaction import redacted, safe_repr
from deltasnap_core.storage.urls import is_local, local_path, to_url
from deltasnap_core.store.fleet.timeline import Points, VersionPoint
from deltasnap_core.store.format.layout import ManifestName

POLL_FORMAT = 1
MAX_TEXT_LENGTH = 2000
DEFAULT_SMALL_FILE_BYTES = 16 * 1024 * 1024

Severity = Literal["error", "warning"]


@safe_repr
@dataclass(frozen=True, slots=True, kw_only=True)
class TableProblem:
    """One problem of a table.

    check: the check that found it. text: the problem in sentences. advice: what to do. kind: the kind of a fault of the
    log; None: found by a check, or unknown.
    """

    check: str
    severity: Severity
    text: str
    advice: str = ""
    kind: FaultKind | None = None

    @classmethod
    def from_json(cls, values: object) -> TableProblem:
        """Return the problem from the result of `to_json`. Errors: ValueError."""
        fields = JsonFields("problem", values)
        severity = fields.string("severity")
        if severity not in ("error", "warning"):
            raise ValueError(f"problem.severity: expected error or warning, found {severity!r}")
        return cls(
            check=fields.string("check"),
            severity="error" if severity == "error" else "warning",
            text=fields.string("text"),
            advice=fields.string("advice"),
            kind=next((kind for kind in FaultKind if kind.value == fields.optional_string("kind")), None),
        )

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON values. Texts are without credentials, and truncated."""
        return {
            "check": self.check,
            "severity": self.severity,
            "text": _stored_text(self.text),
            "advice": _stored_text(self.advice),
            "kind": None if self.kind is None else self.kind.value,
        }


@safe_repr
@dataclass(frozen=True, slots=True, kw_only=True)
class StaleRule:
    """When a table is stale: its last commit is older than `patience_ms`. check, advice: to be shown then."""

    patience_ms: int
    check: str
    advice: str = ""


@safe_repr
@dataclass(frozen=True, slots=True, kw_only=True)
class LastPoll:
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
    owners:           of the table, as configured.
    path:             URL of the table, without credentials.
    points:           times and sizes of some stored versions, so that their manifests need not be read again.
    """

    polled_at_ms: int
    examined_at_ms: int | None = None
    examined_checkpoint: str | None = None
    latest_version: int | None = None
    last_commit_ms: int | None = None
    checked_version: int | None = None
    checked_inputs: str | None = None
    unchecked_since_ms: int | None = None
    problems: tuple[TableProblem, ...] = ()
    stale_rule: StaleRule | None = None
    small_file_bytes: int = DEFAULT_SMALL_FILE_BYTES
    facts_version: int | None = None
    vacuum_bytes: int | None = None
    owners: tuple[str, ...] = ()
    path: str | None = None
    points: Points = field(default_factory=dict, repr=False)

    @classmethod
    def from_bytes(cls, content: bytes) -> LastPoll:
        """Return the poll from the bytes of its document. Errors: ValueError stating the problem."""
        try:
            values = json.loads(content)
        except (ValueError, RecursionError) as error:
            raise ValueError(f"expected JSON: {error}") from error
        fields = JsonFields("poll", values)
        if fields.integer("format") != POLL_FORMAT:
            raise ValueError(f"expected format {POLL_FORMAT}, found {values['format']!r}")
        rule = values.get("staleRule")
        return cls(
            polled_at_ms=fields.integer("polledAt"),
            examined_at_ms=fields.optional_integer("examinedAt"),
            examined_checkpoint=fields.optional_string("examinedCheckpoint"),
            latest_version=fields.optional_integer("latestVersion"),
            last_commit_ms=fields.optional_integer("lastCommit"),
            checked_version=fields.optional_integer("checkedVersion"),
            checked_inputs=fields.optional_string("checkedInputs"),
            unchecked_since_ms=fields.optional_integer("uncheckedSince"),
            problems=fields.sequence("problems", TableProblem.from_json),
            stale_rule=None if rule is None else _rule_of(rule),
            small_file_bytes=fields.integer("smallFileBytes"),
            facts_version=fields.optional_integer("factsVersion"),
            vacuum_bytes=fields.optional_integer("vacuumBytes"),
            owners=fields.sequence("owners", _owner),
            path=fields.optional_string("path"),
            points=_points_of(values.get("points", {})),
        )

    def is_elsewhere(self, path: str) -> bool:
        """Return whether this is the poll of a table at another path. A path that is not recorded may be the same.

        Links of a local path are resolved.
        """
        return self.path is not None and _place(self.path) != redacted(_place(path))

    def to_bytes(self) -> bytes:
        """Return the document: UTF-8 JSON."""
        rule = self.stale_rule
        values = {
            "format": POLL_FORMAT,
            "polledAt": self.polled_at_ms,
            "examinedAt": self.examined_at_ms,
            "examinedCheckpoint": self.examined_checkpoint,
            "latestVersion": self.latest_version,
            "lastCommit": self.last_commit_ms,
            "checkedVersion": self.checked_version,
            "checkedInputs": self.checked_inputs,
            "uncheckedSince": self.unchecked_since_ms,
            "problems": [problem.to_json() for problem in self.problems],
            "staleRule": rule and {"patience": rule.patience_ms, "check": rule.check, "advice": rule.advice},
            "smallFileBytes": self.small_file_bytes,
            "factsVersion": self.facts_version,
            "vacuumBytes": self.vacuum_bytes if is_json_kind(self.vacuum_bytes, int) else None,
            "owners": list(self.owners),
            "path": self.path and redacted(self.path),
            "points": _points_json(self.points),
        }
        return json.dumps(values, separators=(",", ":")).encode()


def _place(path: str) -> str:
    url = to_url(path)
    return os.path.realpath(local_path(url)) if is_local(url) else url


def _stored_text(text: str) -> str:
    return redacted(text)[:MAX_TEXT_LENGTH]


def _rule_of(values: object) -> StaleRule:
    fields = JsonFields("staleRule", values)
    return StaleRule(
        patience_ms=fields.integer("patience"), check=fields.string("check"), advice=fields.string("advice")
    )


def _owner(value: object) -> str:
    if not isinstance(value, str):
        raise ValueError(f"owners: expected texts, found {value!r}")
    return value


def _points_json(points: Points) -> dict[str, dict[str, Sequence[int]]]:
    by_generation: dict[str, dict[str, Sequence[int]]] = {}
    for name, point in points.items():
        by_generation.setdefault(name.generation, {})[str(name.version)] = list(point)
    return by_generation


def _points_of(values: object) -> dict[ManifestName, VersionPoint]:
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
