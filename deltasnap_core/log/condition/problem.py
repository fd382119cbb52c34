"""Problem: what is wrong with a table, where, and which versions it affects. Its text is only output."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from deltasnap_core.errors import one_line
from deltasnap_core.log.condition.problem_kinds import TEMPLATES, WITHOUT_LOSS, ProblemKind, Severity, Template
from deltasnap_core.ranges import NO_VERSIONS, VersionRanges
from deltasnap_core.redaction import redacted, safe_repr

Mark = Literal["ok", "warning", "error"]
Fact = str | int

_OF_MISSING_COMMITS = (ProblemKind.MISSING_COMMIT, ProblemKind.UNNEEDED_COMMIT)


@safe_repr
@dataclass(frozen=True, slots=True, kw_only=True)
class Where:
    """Where a problem is.

    file, line: URL of the file, without credentials, and the line in it, from 1; None: the problem concerns no single
                file, or no single line.
    name:       of the check that failed, or the id of the run; None: neither.
    versions:   those whose commit, checkpoint or checksum has the problem, or that the run did not materialize; empty:
                it belongs to no version.
    """

    file: str | None = None
    line: int | None = None
    name: str | None = None
    versions: VersionRanges = field(default_factory=VersionRanges)

    @classmethod
    def of(cls, file: str | None = None, *versions: int, line: int | None = None) -> Where:
        """Return the place of the problem of a file. file: may contain credentials."""
        return cls(file=file and redacted(file), line=line, versions=VersionRanges.of(versions))

    def __str__(self) -> str:
        return f"{self.file or ''}" if self.line is None else f"{self.file}, line {self.line}"


NOWHERE = Where()


@safe_repr
@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """One problem of a table. Two problems with the same `key` are the same one, whatever their facts.

    versions: those that cannot be loaded because of it; empty for a problem with a fallback.
    facts:    fill the templates of its kind; without credentials. A fact `severity`, `text`, `advice` or `reason`
              replaces that of the kind.
    """

    kind: ProblemKind
    where: Where = field(default_factory=Where)
    versions: VersionRanges = field(default_factory=VersionRanges)
    facts: Mapping[str, Fact] = field(default_factory=dict)

    @classmethod
    def of(
        cls, kind: ProblemKind, where: Where = NOWHERE, versions: VersionRanges = NO_VERSIONS, **facts: Fact
    ) -> Problem:
        """Return a problem with facts that may contain credentials."""
        shown = {name: redacted(fact) if isinstance(fact, str) else fact for name, fact in facts.items()}
        return cls(kind=kind, where=where, versions=versions, facts=shown)

    @classmethod
    def of_check(cls, *, check: str, severity: Severity, text: str, advice: str = "") -> Problem:
        """Return the problem that a check found."""
        return cls.of(ProblemKind.FAILED_CHECK, Where(name=check), severity=severity, text=text, advice=advice)

    @property
    def key(self) -> tuple[object, ...]:
        """The identity of the problem."""
        where = self.where
        return self.kind, where.file, where.line, where.name, where.versions.runs, self.versions.runs

    @property
    def check(self) -> str:
        """The check or other source that found it, such as `log`, `run` or `store`; empty: no check."""
        return self._template.found_by or self.where.name or ""

    @property
    def severity(self) -> Severity:
        """`error` if a version cannot be loaded or the table cannot be reached; otherwise that of the kind."""
        return "error" if self.versions else self.facts.get("severity", self._template.severity)  # type: ignore[return-value]

    @property
    def mark(self) -> Mark:
        """`error` or `warning`."""
        return "error" if self.severity == "error" else "warning"

    @property
    def text(self) -> str:
        """The problem in full sentences: where it is, what is wrong, and what is read instead."""
        return self._filled("text", self._template.text)

    @property
    def advice(self) -> str:
        """What to do."""
        return self._filled("advice", self._template.advice)

    @property
    def reason(self) -> str:
        """The expected and the found content, without the file."""
        return self._filled("reason", self._template.reason)

    @property
    def has_all_facts(self) -> bool:
        """Whether the facts fill the templates of the kind."""
        try:
            return bool(self.text) and self.reason is not None
        except (KeyError, ValueError):
            return False

    @property
    def missing(self) -> VersionRanges:
        """The versions whose commits are missing; only for problems of missing commits."""
        return self.where.versions if self.kind in _OF_MISSING_COMMITS else NO_VERSIONS

    @property
    def read_instead(self) -> str | None:
        """The files that deltasnap reads in place of a damaged file; None: nothing can replace it."""
        found = self.facts.get("read_instead")
        return None if found is None else str(found)

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON values; versions as `[first, last]` pairs."""
        return {
            "kind": self.kind.value,
            "mark": self.mark,
            "text": self.text,
            "advice": self.advice,
            "file": self.where.file,
            "line": self.where.line,
            "reason": self.reason,
            "versions": pairs(self.versions),
            "missing": pairs(self.missing),
            "read_instead": self.read_instead,
        }

    @property
    def _template(self) -> Template:
        replaced = None if self.versions else WITHOUT_LOSS.get(self.kind)
        return replaced or TEMPLATES[self.kind]

    def _filled(self, part: str, template: str) -> str:
        return str(self.facts[part]) if part in self.facts else template.format_map(self._values())

    def _values(self) -> dict[str, _Shown]:
        """Return the values of a template: the facts, and the place and versions of the problem."""
        where, instead = self.where, self.read_instead
        others = "" if self.versions == where.versions else f" {_Shown(self.versions):Versions} cannot be loaded."
        values: dict[str, Fact | VersionRanges] = {
            **self.facts,
            "at": where.versions,
            "lost": self.versions,
            "also_lost": others,
            "place": str(where),
            "of_place": f" ({where})" if where.file else "",
            "name": (where.file or "").rpartition("/")[2],
            "read": f"deltasnap reads {instead} instead",
        }
        return {name: _Shown(value) for name, value in values.items()}


@dataclass(frozen=True, slots=True)
class _Shown:
    """A value in a template, in one of the formats `one|several`, `versions`, `Versions`, `commits`, `d` and `.`.

    The last one makes it a sentence on one line, `d` shows a number without separators.
    """

    value: Fact | VersionRanges

    def __format__(self, spec: str) -> str:
        if isinstance(self.value, str):
            text = one_line(self.value) if spec == "." else self.value
            return f"{text}." if spec == "." and not text.endswith((".", "!", "?")) else text
        is_one = (self.value if isinstance(self.value, int) else len(self.value)) == 1
        if "|" in spec:
            one, several = spec.split("|")
            return one if is_one else several
        if isinstance(self.value, int):
            return format(self.value, spec or ",")
        versions = self.value.text()
        match spec:
            case "commits":
                return f"commit{'' if is_one else 's'} of {self:versions}"
            case "versions" | "Versions":
                return f"{spec[:-1] if is_one else spec} {versions}"
            case _:
                return versions


def pairs(versions: VersionRanges) -> list[Sequence[int]]:
    """Return versions as `[first, last]` pairs, for JSON."""
    return [[first, last] for first, last in versions.runs]
