"""blame: the history of one row, found by its key."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from typing import TYPE_CHECKING, Any, Literal

import pyarrow as pa

from deltasnap_core.log.history.delta_history_manager import DeltaHistory
from deltasnap_core.redaction import safe_repr
from deltasnap_core.rules.texts.sql_text import quoted, string_sql
from deltasnap_core.scan.collected_rows import countable
from deltasnap_core.scan.files.data_file import DataFile
from deltasnap_core.scan.search.bisect import Search, reader_of_rows
from deltasnap_core.scan.search.expectation import Expectation
from deltasnap_core.scan.search.judge import FileId, Judge, Judgement, Match, meaning_of
from deltasnap_core.scan.table_columns import TableColumn, TableColumns
from deltasnap_core.scan.table_version import TableVersion

if TYPE_CHECKING:
    from deltasnap_core.scan.search.known_versions import KnownVersions

Change = Literal["insert", "update", "delete"]
_NUMBER = re.compile(r"[+-]?\d+(\.\d+)?")
_PLAIN = re.compile(r"[^'\\$\x00-\x1f]*")
_DATE = r"[+-]?\d{4,7}-\d{1,2}-\d{1,2}"  # Spark also reads the year 2026 as its first day
_TEXTS: Mapping[str, re.Pattern[str]] = {
    "string": re.compile(".*", re.DOTALL),
    "date": re.compile(f"{_DATE}( 00:00:00)?"),  # a datetime at midnight, too
    "timestamp": re.compile(f"{_DATE}([ T].+)?"),
    "timestamp_ntz": re.compile(f"{_DATE}([ T][0-9:.]+)?"),  # Spark ignores a zone
}
"""The texts that are values of types."""
_INTEGERS = ("byte", "short", "integer", "long")


@safe_repr
@dataclass(frozen=True, slots=True, kw_only=True)
class RowChange:
    """A change of a row with the key.

    version:        the version that has the change.
    first_possible: an earlier version, if those from it on cannot be judged: one of them may have made the change.
    commit:         of the version; None: unknown, or another version may have made the change.
    old, new:       the row before and after, as a table of one row; None: there was or is none.
    """

    version: int
    first_possible: int
    change: Change
    commit: DeltaHistory | None = None
    old: pa.Table | None = None
    new: pa.Table | None = None


@safe_repr
@dataclass(frozen=True, slots=True, kw_only=True)
class RowHistory:
    """The changes of the rows with a key, ascending by version.

    where: the key as a condition. unread: the versions that could not be judged, as far as they were tried.
    """

    where: str
    changes: tuple[RowChange, ...]
    unread: tuple[Judgement, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Step:
    """A version whose files with the key differ from those of the version judged before it.

    before: a version with whose schema the rows of gone files are read.
    """

    version: TableVersion
    before: TableVersion
    first_possible: int
    gone: Sequence[DataFile]
    new: Sequence[DataFile]

    @property
    def read(self) -> tuple[tuple[TableVersion, Sequence[DataFile]], ...]:
        """The files to read, each with a version that reads them."""
        return (self.before, self.gone), (self.version, self.new)


def blame(versions: KnownVersions, key: Mapping[str, object], first: int | None = None) -> RowHistory:
    """Return the history of the rows with a key. See `Table.blame`."""
    numbers = [number for number in versions.numbers if first is None or number >= first]
    if not numbers:
        raise ValueError(f"Expected a first version up to {max(versions.numbers)}, found {first}")
    newest = versions.open(numbers[-1])
    where = condition_of(newest.scanned_table().columns, key)
    judge = Judge(Expectation(where=where))
    search = Search(versions=replace(versions, numbers=numbers), judge=judge)
    start = search.earliest(search.judged(numbers[-1], newest)).version
    unread = {step.version: step for step in search.steps if step.problem is not None}
    steps: list[_Step] = []
    matches: Mapping[FileId, Match] = {}
    earlier: TableVersion | None = None
    judged = -1  # rows of the first version may be older
    for number, version in search.opened([number for number in numbers if number >= start]):
        judgement = search.tried(number, version)
        if version is None or judgement.problem is not None:
            unread[number] = judgement
            continue
        found = judge.matching_files(version)
        gone = [file for each, (file, _) in matches.items() if each not in found]
        new = [file for each, (file, _) in found.items() if each not in matches]
        if gone or new:
            before = (reader_of_rows(version, earlier) or earlier) if gone and earlier else version
            steps.append(_Step(version=version, before=before, first_possible=judged + 1, gone=gone, new=new))
        matches, judged, earlier = found, number, version
    return RowHistory(
        where=where,
        changes=tuple(_changes(steps, where)),
        unread=tuple(unread[number] for number in sorted(unread)),
    )


def condition_of(columns: TableColumns, key: Mapping[str, object]) -> str:
    """Return a key as a condition. Errors: ValueError for an unknown column, or a value of another type."""
    if not key:
        raise ValueError("Expected the columns of a key with their values, found none")
    return " and ".join(_equals(columns.named(name), value) for name, value in key.items())


def _equals(column: TableColumn, value: object) -> str:
    name, text, kind = ".".join(map(quoted, column.path)), str(value), column.data_type
    if value is None:
        return f"{name} is null"
    if isinstance(value, bool):
        text = text.lower()
    is_number = _NUMBER.fullmatch(text) is not None
    if is_number and (kind == "double" or kind.startswith("decimal") or (kind in _INTEGERS and "." not in text)):
        return f"{name} = {text}"
    if kind in ("float", "double"):
        return f"{name} = cast({_literal(text)} as {kind})"
    if kind == "boolean" and text in ("true", "false"):
        return f"{name} = {text}"
    if kind in _TEXTS and _TEXTS[kind].fullmatch(text):
        return f"{name} = {_literal(text)}"
    raise ValueError(f"Expected a value of type {kind} for the column {column.name} of the key, found {text!r}")


def _literal(text: str) -> str:
    """Return a text as SQL: a plain literal if possible, because only such conditions skip files."""
    return f"'{text}'" if _PLAIN.fullmatch(text) else string_sql(text)


def _changes(steps: Sequence[_Step], where: str) -> Iterable[RowChange]:
    """Yield the changes of steps. The rows that are read with one schema are read in one job."""
    groups: dict[object, tuple[TableVersion, dict[FileId, DataFile]]] = {}
    for step in steps:
        for version, files in step.read:
            _, group = groups.setdefault(meaning_of(version.scanned_table()), (version, {}))
            group |= {file.key: file for file in files}
    rows: dict[tuple[object, FileId], list[pa.Table]] = {}
    for meaning, (version, group) in groups.items():
        found = version.scan(where).rows_by_file([*group.values()])
        rows |= {(meaning, each): _split(table) for each, table in zip(group, found, strict=True)}
    for step in steps:
        old, new = (
            [row for file in files for row in rows[meaning_of(version.scanned_table()), file.key]]
            for version, files in step.read
        )
        yield from _changes_of(step, *_without_copies(old, new))


def _changes_of(step: _Step, old: Sequence[pa.Table], new: Sequence[pa.Table]) -> Iterable[RowChange]:
    number = step.version.version
    commits = step.version.versions.version.commits(number) if step.first_possible == number else []
    for before, after in zip_longest(old, new):
        yield RowChange(
            version=number,
            first_possible=step.first_possible,
            change="insert" if before is None else "delete" if after is None else "update",
            commit=next(iter(commits), None),
            old=before,
            new=after,
        )


def _split(rows: pa.Table) -> list[pa.Table]:
    return [rows.slice(number, 1) for number in range(rows.num_rows)]


def _without_copies(old: Iterable[pa.Table], new: Iterable[pa.Table]) -> tuple[list[pa.Table], list[pa.Table]]:
    """Return rows without those that both have, one for one, each in the order of their values."""
    left: dict[str, list[pa.Table]] = defaultdict(list)
    for row in old:
        left[_text(row)].append(row)
    inserted = []
    for row in new:
        copies = left[_text(row)]
        if copies:
            copies.pop()
        else:
            inserted.append(row)
    deleted = [row for rows in left.values() for row in rows]
    return sorted(deleted, key=_text), sorted(inserted, key=_text)


def _text(row: pa.Table) -> str:
    """Return a text that is equal for equal rows only, as in `row_comparison`: NaN equals NaN, 0.0 is not -0.0.

    Names are compared without regard to case: `Day` and `day` are one column.
    """
    values = (_form(column.cast(countable(column.type)).to_pylist()[0]) for column in row.columns)
    return repr([(each.name.lower(), str(each.type), value) for each, value in zip(row.schema, values, strict=True)])


def _form(value: Any) -> str:
    if isinstance(value, dict):
        return repr([(name, _form(inner)) for name, inner in value.items()])
    if isinstance(value, list):
        forms = [_form(inner) for inner in value]
        return repr(sorted(forms) if value and isinstance(value[0], tuple) else forms)  # the entries of a map
    if isinstance(value, tuple):
        return repr(tuple(map(_form, value)))
    return repr(value)
