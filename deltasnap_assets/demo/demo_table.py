"""The demo table: a real Delta table with many kinds of operations, written with `deltalake`.

The operation of version `v` depends only on `v` (`step_of`): an interrupted demo continues where it stopped, and a
complete one can grow further. Every step makes at least one commit.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from datetime import date, timedelta
from pathlib import Path

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Field, Schema, Transaction, write_deltalake

FIRST_LIFE_VERSIONS = 48
NEWS_VERSIONS = 4
CHECKPOINT_EVERY = 30
DAYS = 6
FIRST_DAY = date(2026, 3, 2)
ADDS_COUNTRY_AT = 21
INGEST_APP_ID = "events-ingest"
COLUMNS = pa.schema([("id", pa.int64()), ("day", pa.date32()), ("kind", pa.string()), ("amount", pa.float64())])
COUNTRY = pa.field("country", pa.string())

Step = Callable[[Path, int], object]


def grow(path: Path, versions: int) -> Iterator[int]:
    """Write commits until the table at `path` has that many versions. Yields each version after it is written."""
    path.parent.mkdir(parents=True, exist_ok=True)
    for version in range(version_count(path), versions):
        if version_count(path) > version:
            continue  # a step that made two commits
        step_of(version)(path, version)
        if version and version % CHECKPOINT_EVERY == 0:
            DeltaTable(path).create_checkpoint()
        yield version


def version_count(path: Path) -> int:
    """Return the number of versions of the table; 0 if there is no table."""
    return DeltaTable(path).version() + 1 if DeltaTable.is_deltatable(str(path)) else 0


def step_of(version: int) -> Step:
    """Return the operation of that version's commit. Each change to rows follows an append to the same day."""
    if version < FIRST_LIFE_VERSIONS:
        return FIRST_LIFE.get(version, append)
    return LATER_LIFE.get(version % 12, append)


def day_of(version: int) -> date:
    return FIRST_DAY + timedelta(days=version % DAYS)


def rows(version: int, count: int, days: tuple[date, ...]) -> pa.Table:
    """Return `count` events with unique ids for each of the days, the same in every run."""
    rng = random.Random(version)
    events = [
        {
            "id": version * 1000 + number,
            "day": days[number % len(days)],
            "kind": ("view", "cart", "purchase")[number // len(days) % 3],
            "amount": round(rng.lognormvariate(3, 1), 2),
            "country": rng.choice(("de", "fr", "it", "pl")),
        }
        for number in range(count)
    ]
    return pa.Table.from_pylist(events, schema=COLUMNS.append(COUNTRY) if version >= ADDS_COUNTRY_AT else COLUMNS)


def create(path: Path, _version: int) -> None:
    DeltaTable.create(
        str(path),
        Schema.from_arrow(COLUMNS),
        partition_by=["day"],
        name="events",
        description="What visitors of a small shop did",
        configuration={"delta.deletedFileRetentionDuration": "interval 1 week"},
    )


def append(path: Path, version: int) -> None:
    """Append two days of events as an ingest job does, with an application transaction that identifies retries."""
    ingested = Transaction(INGEST_APP_ID, version, int(time.time() * 1000))
    events = rows(version, 60 + 40 * (version % 5), (day_of(version), day_of(version + 1)))
    write_deltalake(path, events, mode="append", commit_properties=CommitProperties(app_transactions=[ingested]))


def delete(path: Path, version: int) -> None:
    DeltaTable(path).delete(f"day = '{day_of(version)}' and id % 10 = 7")


def delete_day(path: Path, version: int) -> None:
    DeltaTable(path).delete(f"day = '{day_of(version)}'")


def update(path: Path, version: int) -> None:
    DeltaTable(path).update({"amount": "amount * 0.9"}, predicate=f"day = '{day_of(version)}' and kind = 'purchase'")


def merge(path: Path, version: int) -> None:
    """Merge corrections of the events appended just before, and a few new events."""
    late = rows(version, 20, (day_of(version),))
    corrected = rows(version - 1, 40, (day_of(version - 1), day_of(version)))
    (
        DeltaTable(path)
        .merge(pa.concat_tables([late, corrected]), "t.id = s.id and t.day = s.day", source_alias="s", target_alias="t")
        .when_matched_update_all()
        .when_not_matched_insert_all()
        .execute()
    )


def compact(path: Path, _version: int) -> None:
    DeltaTable(path).optimize.compact()


def add_country(path: Path, _version: int) -> None:
    DeltaTable(path).alter.add_columns(Field.from_arrow(COUNTRY))


def replace_day(path: Path, version: int) -> None:
    day = day_of(version)
    write_deltalake(path, rows(version, 50, (day,)), mode="overwrite", predicate=f"day = '{day}'")


def overwrite(path: Path, version: int) -> None:
    days = tuple(day_of(number) for number in range(DAYS))
    write_deltalake(path, rows(version, 600, days), mode="overwrite")


def restore(path: Path, version: int) -> None:
    """Restore the version before the last commit: the files that it removed are live again."""
    DeltaTable(path).restore(version - 2)


def set_properties(path: Path, _version: int) -> None:
    DeltaTable(path).alter.set_table_properties({"delta.logRetentionDuration": "interval 60 days"})


FIRST_LIFE: dict[int, Step] = {
    0: create,
    6: delete,
    9: update,
    12: merge,
    15: compact,
    18: delete_day,
    ADDS_COUNTRY_AT: add_country,
    24: merge,
    26: replace_day,
    29: update,
    33: delete,
    36: overwrite,
    38: delete_day,
    39: restore,
    42: set_properties,
    45: compact,
}
LATER_LIFE: dict[int, Step] = {1: delete, 3: merge, 5: update, 8: compact, 11: replace_day}
