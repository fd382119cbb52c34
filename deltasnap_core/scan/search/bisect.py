"""bisect: finds a version at which an expectation changes from held to failed, as `git bisect` does."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TYPE_CHECKING, TypedDict

from pyspark.sql import functions as F

from deltasnap_core.errors import PredicateError, RowChangesError, one_line
from deltasnap_core.log.history.delta_history_manager import DeltaHistory
from deltasnap_core.redaction import redacted, safe_repr
from deltasnap_core.rules.texts.sql_text import quoted
from deltasnap_core.scan.changes.changed_rows import (
    CHANGE_COLUMNS,
    CHANGE_TYPE,
    COMMIT_TIMESTAMP,
    COMMIT_VERSION,
    DELETE,
    INSERT,
)
from deltasnap_core.scan.changes.row_comparison import difference
from deltasnap_core.scan.changes.schema_changes import check_schemas
from deltasnap_core.scan.files.data_file import DataFile
from deltasnap_core.scan.physical_schema import logical_schema
from deltasnap_core.scan.predicate_analysis import check_deterministic
from deltasnap_core.scan.search.expectation import NONE, Expectation
from deltasnap_core.scan.search.judge import UNREADABLE, Judge, Judgement, repeated_rows
from deltasnap_core.scan.table_rows import TableRows
from deltasnap_core.scan.table_version import TableVersion

if TYPE_CHECKING:
    from deltasnap_core.scan.search.known_versions import KnownVersions


_MOST_AT_ONCE = 32
"""The largest number of versions whose files are read at once."""


class Outcome(StrEnum):
    """How a search ended."""

    FOUND = "found"
    HOLDS = "holds"
    """Nothing to find: the last version holds the expectation."""
    FAILED_BEFORE = "failed_before"
    """Nothing to find: the first version does not hold it."""


class BisectOptions(TypedDict, total=False):
    """The options of `Table.bisect` and `KnownVersions.bisect`.

    where, unique, file, expect: what is expected, see `Expectation`.
    good, bad: the versions to search between: the first is expected to hold it, the second not to. None: the earliest
               version that can be judged, and the latest one. If versions after it cannot be judged, it may be a later
               one, unless `first`.
    first:     whether to judge every version in order: then it is exactly the first one that fails.
    on_step:   called with each judgement.
    """

    where: str | None
    unique: Sequence[str] | str | None
    file: str | None
    expect: str | None
    good: int | None
    bad: int | None
    first: bool
    on_step: Callable[[Judgement], None] | None


@safe_repr
@dataclass(frozen=True, slots=True, kw_only=True)
class ChangedFile:
    """A data file with matching rows that one of two versions has. rows: their number. is_added: by the later one."""

    path: str
    is_added: bool
    rows: int


@safe_repr
@dataclass(frozen=True, slots=True, kw_only=True)
class Bisection:
    """The result of a search.

    held:   the last version before the change; None: no version is known to hold the expectation.
    failed: the first version after the change; None: the last version holds the expectation.
    is_first: whether no version from `good` on that can be judged fails before `failed`. Otherwise `failed` is the
            first one only if the expectation stays failed from the change on.
    commit: of `version`; None: unknown.
    files:  the changed files with matching rows; empty for `unique` and `file`.
    rows:   the matching rows that were inserted or deleted, with `_change_type`; with `unique`, the rows with repeated
            values; None: there are none to show. They are read when they are asked for. If the rows before cannot be
            read with the schema after the change, they are all matching rows of the added files.
    steps:  the judgements in the order in which they were made.
    """

    outcome: Outcome
    expectation: Expectation
    held: Judgement | None = None
    failed: Judgement | None = None
    is_first: bool = False
    commit: DeltaHistory | None = None
    files: tuple[ChangedFile, ...] = ()
    rows: TableRows | None = None
    steps: tuple[Judgement, ...] = ()

    @property
    def first_possible(self) -> int | None:
        """The first version that may have changed it: those from it up to `last_possible` cannot be judged."""
        return None if self.outcome is not Outcome.FOUND or self.held is None else self.held.version + 1

    @property
    def last_possible(self) -> int | None:
        """The last version that may have changed it."""
        return None if self.outcome is not Outcome.FOUND or self.failed is None else self.failed.version

    @property
    def version(self) -> int | None:
        """The version that changed it; None: there is none, or it is one of several."""
        return self.last_possible if self.first_possible == self.last_possible else None


def bisect(versions: KnownVersions, wanted: BisectOptions) -> Bisection:
    """Return where an expectation changes from held to failed. See `Table.bisect`."""
    unique = wanted.get("unique")
    expectation = Expectation(
        where=wanted.get("where"),
        unique=(unique,) if isinstance(unique, str) else tuple(unique or ()),
        file=wanted.get("file"),
        expect=wanted.get("expect") or NONE,
    )
    good, bad, latest = wanted.get("good"), wanted.get("bad"), max(versions.numbers)
    if bad is None:
        bad = latest
    if good is not None and good >= bad:
        raise ValueError(f"Expected a good version before the bad one, found {good} and {bad}")
    newest = versions.open(bad)
    if bad > latest:
        raise ValueError(f"Expected a bad version up to {latest}, found {bad}")
    if expectation.where is not None:
        check_deterministic(newest.scanned_table(), expectation.where)
    search = Search(versions=versions, judge=Judge(expectation), on_step=wanted.get("on_step"))
    failed = search.judged(bad, newest)
    if failed.holds:
        return Bisection(outcome=Outcome.HOLDS, expectation=expectation, held=failed, steps=tuple(search.steps))
    is_first = bool(wanted.get("first"))
    earliest = search.earliest_of_all if is_first else search.earliest
    held = earliest(failed) if good is None else search.judged(good)
    if not held.holds:
        return Bisection(
            outcome=Outcome.FAILED_BEFORE,
            expectation=expectation,
            failed=held,
            is_first=is_first,
            steps=tuple(search.steps),
        )
    held, failed = (search.in_order if is_first else search.by_halves)(held, failed)
    found = Bisection(
        outcome=Outcome.FOUND,
        expectation=expectation,
        held=held,
        failed=failed,
        is_first=is_first,
        steps=tuple(search.steps),
    )
    return search.with_culprit(found)


@dataclass(slots=True, kw_only=True)
class Search:
    """One search. It keeps what it judged."""

    versions: KnownVersions
    judge: Judge
    on_step: Callable[[Judgement], None] | None = None
    steps: list[Judgement] = field(default_factory=list)

    def judged(self, number: int, version: TableVersion | None = None) -> Judgement:
        """Return the judgement of a version. version: if it is open. Errors: those of one that cannot be judged."""
        try:
            return self._noted(self.judge.judgement(version or self.versions.open(number)))
        except PredicateError as error:
            reason = f"version {number}: {error.reason}"
            raise PredicateError(predicate=error.predicate, position=error.position, reason=reason) from error

    def tried(self, number: int, version: TableVersion | None = None) -> Judgement:
        """Return the judgement of a version that may be unreadable. version: if it is open."""
        try:
            return self.judged(number, version)
        except UNREADABLE as error:
            return self._noted(Judgement(version=number, problem=one_line(error)))

    def earliest(self, last: Judgement) -> Judgement:
        """Return the judgement of the earliest version that can be judged, if all after it can be.

        last: of a version that could be judged. Files of the earliest versions are often gone, and their columns may
        not exist yet: then the end of these versions is searched by halves.
        """
        numbers = [number for number in self.versions.numbers if number < last.version]
        if not numbers:
            return last
        found = self.tried(numbers[0])
        if found.problem is None:
            return found
        found, numbers = last, numbers[1:]
        while numbers:
            middle = len(numbers) // 2
            judgement = self.tried(numbers[middle])
            if judgement.problem is None:
                found, numbers = judgement, numbers[:middle]
            else:
                numbers = numbers[middle + 1 :]
        return found

    def earliest_of_all(self, last: Judgement) -> Judgement:
        """Return the judgement of the earliest version that can be judged, up to one that was judged: tries each."""
        tried = (self.tried(number) for number in self.versions.numbers if number < last.version)
        return next((each for each in tried if each.problem is None), last)

    def by_halves(self, held: Judgement, failed: Judgement) -> tuple[Judgement, Judgement]:
        """Return two versions with no version between them that can be judged, one that holds and one that fails."""
        unreadable = {step.version for step in self.steps if step.problem is not None}
        while between := [
            n for n in self.versions.numbers if held.version < n < failed.version and n not in unreadable
        ]:
            middle = self.tried(between[len(between) // 2])
            if middle.problem is not None:
                unreadable.add(middle.version)
            elif middle.holds:
                held = middle
            else:
                failed = middle
        return held, failed

    def in_order(self, held: Judgement, failed: Judgement) -> tuple[Judgement, Judgement]:
        """Return the first version that fails, and the last one before it that can be judged."""
        for number, version in self.opened([n for n in self.versions.numbers if held.version < n < failed.version]):
            found = self.tried(number, version)
            if found.holds:
                held = found
            elif found.problem is None:
                return held, found
        return held, failed

    def opened(self, numbers: Sequence[int]) -> Iterator[tuple[int, TableVersion | None]]:
        """Yield versions, and None for those that cannot be opened.

        The data files of several are read at once: of more and more, as a search may end early.
        """
        size = 1
        while numbers:
            some, numbers, size = numbers[:size], numbers[size:], min(2 * size, _MOST_AT_ONCE)
            found: dict[int, TableVersion] = {}
            for number in some:
                with suppress(*UNREADABLE):
                    found[number] = self.versions.open(number)
            self.judge.learn(found.values())
            yield from ((number, found.get(number)) for number in some)

    def with_culprit(self, found: Bisection) -> Bisection:
        """Return a result with the commit, the files and the rows."""
        assert found.held is not None
        assert found.failed is not None
        before, after = self.versions.open(found.held.version), self.versions.open(found.failed.version)
        commits = [] if found.version is None else after.versions.version.commits(found.version)
        found = replace(found, commit=next(iter(commits), None))
        if found.expectation.file is not None:
            return found
        if found.expectation.unique:
            rows = TableRows(version=after, source=repeated_rows(after, found.expectation))
            return replace(found, rows=rows)
        old, new = self.judge.matching_files(before), self.judge.matching_files(after)
        removed = [entry for key, entry in old.items() if key not in new]
        added = [entry for key, entry in new.items() if key not in old]
        files = [
            *(ChangedFile(path=file.path, is_added=True, rows=count) for file, count in added),
            *(ChangedFile(path=file.path, is_added=False, rows=count) for file, count in removed),
        ]
        reader = reader_of_rows(after, before)
        changed = ([file for file, _ in each] for each in (removed if reader else [], added))
        return replace(
            found, files=tuple(files), rows=_changed(after, reader or after, found.expectation.where, *changed)
        )

    def _noted(self, judgement: Judgement) -> Judgement:
        self.steps.append(judgement)
        if self.on_step is not None:
            self.on_step(judgement)
        return judgement


def reader_of_rows(later: TableVersion, earlier: TableVersion) -> TableVersion | None:
    """Return the version that reads rows of an earlier version with the columns of a later one; None: neither does."""
    if later.partition_columns != earlier.partition_columns:  # they are not in the data files
        return earlier if earlier.schema == later.schema else None
    metadata = {each.version: each.scanned_table().metadata for each in (earlier, later)}
    try:
        check_schemas(metadata, path=redacted(later.path), deleting=())
    except RowChangesError:
        return None
    return later


def _changed(
    version: TableVersion,
    reader: TableVersion,
    where: str | None,
    removed: Sequence[DataFile],
    added: Sequence[DataFile],
) -> TableRows | None:
    """Return the matching rows that a version deletes and inserts, without those that it copies; None: none are known.

    removed, added: the data files with such rows. reader: reads the removed ones.
    """
    scan, schema = version.scan(where), logical_schema(version.schema)
    if not (removed or added) or {name.lower() for name in schema.names} & {*CHANGE_COLUMNS}:
        return None
    rows = scan.rows_of(added).withColumn(CHANGE_TYPE, F.lit(INSERT))
    if removed:
        deleted = reader.scan(where).rows_of(removed).withColumn(CHANGE_TYPE, F.lit(DELETE))
        both = rows.unionAll(deleted) if added else deleted
        of_version = {COMMIT_VERSION: F.lit(version.version), COMMIT_TIMESTAMP: F.lit(None).cast("timestamp")}
        rows = difference(both.withColumns(of_version), schema)
    return TableRows(version=version, source=rows.select(*map(quoted, (*schema.names, CHANGE_TYPE))))
