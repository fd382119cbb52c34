"""Totals of columns that follow from those of an earlier version: always those of a pass over all files."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import Phase, given, settings, strategies as st
from pyspark.sql import SparkSession

from deltasnap_core import DeltaLog, SnapshotStore
from deltasnap_core.scan.tables import metadata_tables
from deltasnap_core.scan.tables.column_trends import ColumnTrend
from deltasnap_core.scan.version import Version
from deltasnap_core.store.format.change_sets import ChangePolicy
from deltasnap_core.store.rows import driver_rows
from tests import builders
from tests.builders import add, metadata, protocol, remove, schema, write_log
from tests.driver_bases import use_driver_bases
from tests.random_logs import RandomLog, random_logs

HOUR = 3_600_000
NOW = 1_700_000_000_000
LONG_TEXT = "b" * 32
FIELDS = {
    "i": builders.field("i", "long"),
    "s": builders.field("s", "string"),
    "d": builders.field("d", "decimal(20,2)"),
    "p": builders.field("p", "integer"),
    "day": builders.field("day", "date"),
    "extra": builders.field("extra", "double"),
    "wide": builders.field("i", "decimal(20,0)"),
}
SCHEMAS = (("i", "s", "d", "day", "p"), ("i", "s", "d", "day", "p", "extra"), ("wide", "s", "d", "day", "p"))
VALUES: Mapping[str, Sequence[Any]] = {
    "i": (0, 1, 2, 7, None, "no number", 1.5, 1 << 63),
    "s": ("", "a", "b", LONG_TEXT, LONG_TEXT + "c", None),
    "d": (Decimal("-1.5"), 0, Decimal("7.25"), 10**16, None),
    "day": ("0001-01-01", "2020-02-29", "9999-12-31", "0000-12-31", "+10000-01-01", None),
}
"""The values of a type, in order, then others."""
MOST = (1 << 63) - 1


@st.composite
def files(draw: st.DrawFn) -> dict[str, Any]:
    """Draw the fields of an added file."""
    seldom = st.sampled_from([False] * 9 + [True])
    records = draw(st.sampled_from([-3, MOST]) if draw(seldom) else st.none() | st.integers(0, 5))
    stats: dict[str, Any] = {"numRecords": records} if records is not None else {}
    bounds: dict[str, list[Any]] = {}
    for name, values in VALUES.items():
        places = draw(st.lists(st.integers(0, len(values) - 1), min_size=2, max_size=2))
        bounds[name] = [values[place] for place in sorted(places, reverse=draw(seldom))]
    for place, kind in enumerate(("minValues", "maxValues", "nullCount")):
        names = draw(st.lists(st.sampled_from(sorted(VALUES)), unique=True) | st.just(sorted(VALUES)))
        most = 3 if records is None or records < 0 else min(records, 5)
        nulls = {name: draw(st.sampled_from([-1, 6, MOST]) if draw(seldom) else st.integers(0, most)) for name in names}
        stats[kind] = nulls if kind == "nullCount" else {name: bounds[name][place] for name in names}
    if draw(st.booleans()):
        stats["tightBounds"] = draw(st.booleans())
    text = json.dumps(stats, default=float)
    hours = draw(st.integers(0, 40))
    vector = {
        **builders.VECTOR,
        "cardinality": draw(st.integers(1, 5)),
        "pathOrInlineDv": draw(st.sampled_from("xy") | st.none()),
    }
    return {
        "stats": draw(st.sampled_from([text, text, text, None, "no JSON"])),
        "partitionValues": {"p": draw(st.sampled_from(["1", "2", "", "x", "3000000000"]))},
        "modificationTime": NOW - hours * HOUR,
        **({"deletionVector": vector} if vector["pathOrInlineDv"] else {}),
    }


@dataclass(kw_only=True)
class Log:
    """The commits of a table, and its live files after each, found one by one."""

    versions: dict[int, list[Any]] = field(default_factory=dict)
    live: list[dict[tuple[str, Any], dict[str, Any]]] = field(default_factory=list)

    def commit(
        self, added: Mapping[str, Mapping[str, Any]], removed: Iterable[str], names: Sequence[str] | None
    ) -> None:
        now = dict(self.live[-1]) if self.live else {}
        actions = [] if names is None else [described(names)]
        if not self.live:
            actions = [protocol(3, 7, readerFeatures=["deletionVectors"]), *actions]
        for path in sorted({*removed, *added}):
            for key in [key for key in now if key[0] == path]:
                vector = now[key].get("deletionVector")
                new = added.get(path, {}).get("deletionVector")
                if vector != new or path not in added:  # an add of the same logical file replaces it
                    actions.append(remove(path, **({} if vector is None else {"deletionVector": vector})))
                del now[key]
        for path, each in added.items():
            actions.append(add(path, dataChange=False, **each))
            now[path, json.dumps(each.get("deletionVector"))] = dict(each)
        self.versions[len(self.live)] = actions
        self.live.append(now)


def described(names: Sequence[str]) -> Any:
    return metadata(schemaString=schema(*(FIELDS[name] for name in names)), partitionColumns=["p"])


@st.composite
def logs(draw: st.DrawFn) -> tuple[Log, tuple[str, ...]]:
    log = Log()
    names: tuple[str, ...] = SCHEMAS[0]
    paths = st.sampled_from([f"f{number}" for number in range(6)])
    for version in range(draw(st.integers(2, 6))):
        changed = version and draw(st.integers(0, 5)) == 0
        names = draw(st.sampled_from(SCHEMAS)) if changed else names
        added = draw(st.dictionaries(paths, files(), max_size=5))
        removed = draw(st.sets(paths, max_size=3)) - added.keys()
        log.commit(added, removed, names if changed or not version else None)
    return log, names


def expected(live: Iterable[Mapping[str, Any]], name: str) -> tuple[Any, ...]:
    """Return nulls, least and greatest value and the share of new nulls of a column but `d`, in plain Python."""
    nulls: list[int | None] = []
    new: list[tuple[int | None, int | None]] = []
    bounds: dict[str, list[tuple[Any, bool]]] = {"min": [], "max": []}
    rows: list[int | None] = []
    for file in live:
        try:
            stats = json.loads(file["stats"] or "{}")
        except ValueError:
            stats = {}
        vector = file.get("deletionVector")
        deleted = vector["cardinality"] if vector else 0
        most = number_in(stats.get("numRecords"), MOST)
        records = None if most is None or most < deleted else most
        left = None if records is None else records - deleted
        if left is not None and left <= 0:
            continue
        rows.append(left)
        is_wide = deleted > 0 or stats.get("tightBounds") is False
        if name == "p":
            value = file["partitionValues"]["p"]
            found = (left if value == "" else 0) if left is not None else None
            nulls.append(found)
            if value != "":
                number = int(value) if value.isdigit() and int(value) < 1 << 31 else None
                for side in bounds.values():
                    side.append((number, False))
        else:
            stated = number_in(stats.get("nullCount", {}).get(name), MOST if most is None else most)
            found = (
                stated
                if not is_wide
                else 0
                if stated == 0
                else left
                if stated is not None and stated == records
                else None
            )
            nulls.append(found)
            if stated is None or stated != records:
                low, high = (valid(stats.get(kind, {}).get(name), name) for kind in ("minValues", "maxValues"))
                if low is not None and high is not None and low > high:
                    low = high = None
                for bound, side in ((low, bounds["min"]), (high, bounds["max"])):
                    side.append((bound, is_wide or (isinstance(bound, str) and len(bound) >= 32)))
        if file["modificationTime"] // HOUR > (NOW - 24 * HOUR) // HOUR:
            new.append((left, found))
    return (
        None if None in nulls or None in rows else sum(each or 0 for each in nulls),
        *(furthest(bounds[kind], min if kind == "min" else max) for kind in ("min", "max")),
        share_of(new),
    )


def number_in(number: int | None, most: int) -> int | None:
    return number if number is not None and 0 <= number <= most else None


def valid(bound: Any, name: str) -> Any:
    """Return a bound of a column as a value; None: it is none of its type."""
    if name == "day":
        return date.fromisoformat(bound) if bound and bound[:4] >= "0001" else None
    if name == "s":
        return bound
    return bound if isinstance(bound, int) and bound <= MOST else None


def furthest(bounds: Sequence[tuple[Any, bool]], of: Any) -> Any:
    if not bounds or any(bound is None for bound, _ in bounds):
        return None
    exact = [bound for bound, is_wide in bounds if not is_wide]
    value = of(bound for bound, _ in bounds)
    return value if value in exact else None


def share_of(new: Sequence[tuple[int | None, int | None]]) -> float | None:
    if not new or any(None in each for each in new):
        return None
    return sum(nulls or 0 for _, nulls in new) / sum(rows or 0 for rows, _ in new)


def facts_of(trend: ColumnTrend) -> tuple[Any, ...]:
    return trend.nulls, trend.least, trend.greatest, trend.new_null_share


@settings(max_examples=60, deadline=None, phases=[Phase.generate])
@given(drawn=logs(), data=st.data())
def test_totals_of_changed_files_are_those_of_all_files(
    drawn: tuple[Log, tuple[str, ...]], data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    (log, names), folder = drawn, tmp_path_factory.mktemp("t")
    write_log(folder / "t", log.versions)
    with pytest.MonkeyPatch.context() as patched:
        use_driver_bases(patched)
        store = SnapshotStore.open(None, folder / "store")
        known, first = None, 0
        while first < len(log.live):
            last = data.draw(st.integers(first, len(log.live) - 1))
            store.write_range("t", DeltaLog.for_table(None, folder / "t"), first, last)
            tables = store.tables("t", last)
            updated = tables.column_totals(NOW - 24 * HOUR, known)
            assert updated.trends() == tables.column_totals(NOW - 24 * HOUR).trends()
            known, first = json.loads(json.dumps(updated.to_json())), last + 1
    trends = {trend.column: trend for trend in updated.trends()}
    for name in ("s", "day", "p", *(["i"] if "i" in names else [])):
        assert facts_of(trends[name]) == expected(log.live[-1].values(), name), name


@settings(max_examples=40, deadline=None, phases=[Phase.generate])
@given(made=random_logs())
def test_totals_of_any_log_follow_from_its_changes(made: RandomLog) -> None:
    with tempfile.TemporaryDirectory() as name, pytest.MonkeyPatch.context() as patched:
        use_driver_bases(patched)
        folder = Path(name)
        write_log(folder / "t", dict(enumerate(made.commits)))
        store, known = SnapshotStore.open(None, folder / "store"), None
        for version in range(len(made.commits)):
            store.write_range("t", DeltaLog.for_table(None, folder / "t"), version, version)
            tables = store.tables("t", version)
            updated = tables.column_totals(0, known)
            assert updated.trends() == tables.column_totals(0).trends()
            known = updated.to_json()


def stats_of(low: int, high: int, nulls: int = 0) -> str:
    return json.dumps({"numRecords": 4, "minValues": {"i": low}, "maxValues": {"i": high}, "nullCount": {"i": nulls}})


@dataclass(kw_only=True)
class Stored:
    """A table that is stored version by version, and its totals."""

    folder: Path
    store: SnapshotStore
    log: dict[int, list[Any]] = field(default_factory=dict)
    known: dict[str, Any] | None = None

    def commit(self, *actions: Any) -> ColumnTrend:
        """Commit and store a version. Return the trend of its first column."""
        version = len(self.log)
        first = [protocol(), metadata(schemaString=schema(builders.field("i", "long")))]
        self.log[version] = [*(first if not version else []), *actions]
        write_log(self.folder / "t", {version: self.log[version]})
        log = DeltaLog.for_table(self.store._engine.sessions, self.folder / "t")
        self.store.write_range("t", log, version, version)
        totals = self.store.tables("t", version).column_totals(NOW, self.known)
        self.known = json.loads(json.dumps(totals.to_json()))
        return totals.trends()[0]


@pytest.fixture
def stored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Stored:
    use_driver_bases(monkeypatch)
    return Stored(folder=tmp_path, store=SnapshotStore.open(None, tmp_path / "store"))


@pytest.fixture
def passes(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The versions all of whose files were read."""
    found: list[int] = []
    whole = metadata_tables.MetadataTables._totals

    def counted(tables: Any, version: Version, since_ms: int | None) -> Any:
        found.append(version.number)
        return whole(tables, version, since_ms)

    monkeypatch.setattr(metadata_tables.MetadataTables, "_totals", counted)
    return found


def test_all_files_are_read_only_if_the_last_file_with_an_extreme_is_removed(stored: Stored, passes: list[int]) -> None:
    stored.commit(add("a", stats=stats_of(1, 9)), add("b", stats=stats_of(1, 5)), add("c", stats=stats_of(2, 9)))
    assert passes == [0]
    assert stored.commit(add("d", stats=stats_of(3, 4, 2))).nulls == 2
    trend = stored.commit(remove("a"), remove("d"))
    assert (trend.nulls, trend.least, trend.greatest) == (0, 1, 9)
    assert passes == [0]
    trend = stored.commit(remove("b"))
    assert (trend.least, trend.greatest) == (2, 9)
    assert passes == [0, 3]


def test_compaction_reads_only_the_changed_files(stored: Stored, passes: list[int]) -> None:
    stored.commit(add("a", stats=stats_of(1, 9)), add("b", stats=stats_of(3, 5)))
    trend = stored.commit(remove("a"), remove("b"), add("c", stats=stats_of(1, 9), dataChange=False))
    assert (trend.records, trend.least, trend.greatest) == (4, 1, 9)
    assert passes == [0]


def test_all_files_are_read_if_more_changed_than_the_driver_holds(
    stored: Stored, passes: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    stored.commit(add("a", stats=stats_of(1, 9)))
    monkeypatch.setattr(driver_rows, "FILES_IN_PIECE", 1)
    assert stored.commit(add("b", stats=stats_of(1, 10))).greatest == 10
    assert stored.commit(add("c", stats=stats_of(1, 11)), add("d", stats=stats_of(1, 12))).greatest == 12
    assert passes == [0, 2]


def test_times_in_another_unit_are_one_hour(stored: Stored) -> None:
    times = [(NOW + number) * 10**6 for number in range(1, 30)]
    trend = stored.commit(*(add(f"f{time}", stats=stats_of(1, 9, 1), modificationTime=time) for time in times))
    assert trend.new_null_share == 0.25
    assert stored.known is not None
    assert len(stored.known["hours"]) == 1


def test_renamed_column_keeps_its_totals(stored: Stored, passes: list[int]) -> None:
    mapping = {"delta.columnMapping.mode": "name"}

    def named(name: str) -> Any:
        return metadata(schemaString=schema(builders.mapped(name, "long", 1, "i")), configuration=mapping)

    stored.log[0] = [protocol(2, 5), named("old"), add("a", stats=stats_of(1, 9))]
    write_log(stored.folder / "t", stored.log)
    stored.store.write_range("t", DeltaLog.for_table(None, stored.folder / "t"), 0, 0)
    stored.known = stored.store.tables("t", 0).column_totals(NOW).to_json()
    trend = stored.commit(named("new"), add("b", stats=stats_of(0, 2)))
    assert (trend.column, trend.least, trend.greatest, passes) == ("new", 0, 9, [0])


@pytest.mark.parametrize("known", [{}, {"version": 0}, {"version": "x", "since": None}], ids=str)
def test_totals_of_another_release_are_not_used(known: Any, stored: Stored, passes: list[int]) -> None:
    stored.commit(add("a", stats=stats_of(1, 9)))
    stored.known = known
    assert stored.commit(add("b", stats=stats_of(0, 2))).least == 0
    assert passes == [0, 1]


def test_wrong_totals_are_found_by_the_number_of_files(stored: Stored, passes: list[int]) -> None:
    stored.commit(add("a", stats=stats_of(1, 9)))
    assert stored.known is not None
    stored.known["count"]["files"] = 7
    assert stored.commit(add("b", stats=stats_of(0, 2))).records == 8
    assert passes == [0, 1]


@pytest.mark.spark
@pytest.mark.parametrize(
    ("removed", "new_base_from"),
    [(3, 10**6), (400, 10**6), (3, 1)],
    ids=["looked up by key", "joined", "a new base"],
)
def test_spark_finds_the_same_totals_from_changes_and_from_all_files(
    removed: int, new_base_from: int, spark: SparkSession, tmp_path: Path
) -> None:
    policy = ChangePolicy(least_rows=new_base_from, base_fraction=new_base_from / 10**6)
    stored = Stored(folder=tmp_path, store=SnapshotStore.open(spark, tmp_path / "store", engine="spark", policy=policy))
    stored.commit(*(add(f"f{number}", stats=stats_of(number % 50, number)) for number in range(1000)))
    known = stored.known
    on_spark = stored.commit(*(remove(f"f{number}") for number in range(removed)), add("g", stats=stats_of(7, 7, 3)))
    again = SnapshotStore.open(spark, tmp_path / "store").tables("t", 1)
    assert (on_spark.records, on_spark.nulls, on_spark.least, on_spark.greatest) == (4004 - 4 * removed, 3, 0, 999)
    assert [on_spark] == list(again.column_totals(NOW).trends()) == list(again.column_totals(NOW, known).trends())
