"""The kept fleets of a store: one Parquet file per fleet, named by its time. No Spark."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator

import pyarrow as pa
import pyarrow.parquet as pq

from deltasnap_core.errors import CorruptStoreError
from deltasnap_core.log.checkpoints.verified_parquet import verified_parquet
from deltasnap_core.storage.urls import join_url
from deltasnap_core.storage.writable_files import TEMPORARY_PREFIX, WritableFiles
from deltasnap_core.store.fleet.fleet_row import HISTORY_SCHEMA
from deltasnap_core.store.format.layout import FLEET_FOLDER

_NAME = re.compile(r"(?P<taken>[0-9]{15})\.parquet\Z")


def keep_fleet(storage: WritableFiles, root: str, fleet: pa.Table, taken_at_ms: int) -> None:
    """Write a fleet below the root of a store. A fleet of the same time is replaced."""
    taken = pa.array([taken_at_ms] * fleet.num_rows, pa.int64())
    rows = pa.table([taken, *fleet.columns], schema=HISTORY_SCHEMA)
    stream = io.BytesIO()
    pq.write_table(rows, stream, compression="zstd", write_page_checksum=True)
    storage.write(join_url(root, f"{FLEET_FOLDER}/{taken_at_ms:015d}.parquet"), stream.getvalue())


def kept_fleets(storage: WritableFiles, root: str, since_ms: int | None, until_ms: int | None) -> pa.Table:
    """Return the rows of all fleets from `since_ms` to `until_ms`, both included, ascending by time.

    None: no limit. Errors: CorruptStoreError naming the file.
    """
    urls = [
        url
        for url, taken in _files(storage, root)
        if (since_ms is None or taken >= since_ms) and (until_ms is None or taken <= until_ms)
    ]
    tables = [_parsed(url, content) for url, content in zip(urls, storage.read_many(urls), strict=True)]
    return pa.concat_tables(tables) if tables else HISTORY_SCHEMA.empty_table()


def prune_fleets(storage: WritableFiles, root: str, before_ms: int) -> int:
    """Delete the fleets taken before a time, and return their number.

    Also deletes files of that time that a killed process was writing.
    """
    old = [url for url, taken in _files(storage, root) if taken < before_ms]
    folder = join_url(root, FLEET_FOLDER)
    unfinished = [name for name in storage.names(folder) if name.startswith(TEMPORARY_PREFIX)]
    found = storage.statuses([join_url(folder, name) for name in unfinished])
    left = [file.path for file in found if file is not None and file.modification_time < before_ms]
    storage.delete([*old, *left])
    return len(old)


def _files(storage: WritableFiles, root: str) -> Iterator[tuple[str, int]]:
    folder = join_url(root, FLEET_FOLDER)
    for name in storage.names(folder):
        if (found := _NAME.match(name)) is not None:
            yield join_url(folder, name), int(found["taken"])


def _parsed(url: str, content: bytes) -> pa.Table:
    try:
        rows = verified_parquet(io.BytesIO(content)).read()
        for field in HISTORY_SCHEMA:  # an earlier release had fewer columns
            if field.nullable and field.name not in rows.column_names:
                rows = rows.append_column(field, pa.nulls(rows.num_rows, field.type))
        return rows.select(HISTORY_SCHEMA.names).cast(HISTORY_SCHEMA)
    except (OSError, pa.ArrowException, KeyError, ValueError) as error:
        raise CorruptStoreError(path=url, reason=str(error)) from error
