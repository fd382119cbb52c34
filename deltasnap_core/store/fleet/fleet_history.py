"""The kept fleets of a store: one Parquet file per fleet, named by its time. No Spark."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.parquet as pq

from deltasnap_core.errors import CorruptStoreError
from deltasnap_core.log.checkpoints.verified_parquet import verified_parquet
from deltasnap_core.storage.urls import join_url
from deltasnap_core.storage.writable_files import TEMPORARY_PREFIX, WritableFiles
from deltasnap_core.store.fleet.fleet_row import HISTORY_SCHEMA
from deltasnap_core.store.format.layout import FLEET_FOLDER

_NAME = re.compile(r"(?P<taken>[0-9]{15})\.parquet\Z")


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetHistory:
    """The kept fleets below the root of a store."""

    storage: WritableFiles
    root: str

    def keep(self, fleet: pa.Table, taken_at_ms: int) -> None:
        """Write a fleet. A fleet of the same time is replaced."""
        taken = pa.array([taken_at_ms] * fleet.num_rows, pa.int64())
        rows = pa.table([taken, *fleet.columns], schema=HISTORY_SCHEMA)
        stream = io.BytesIO()
        pq.write_table(rows, stream, compression="zstd", write_page_checksum=True)
        url = join_url(self.root, f"{FLEET_FOLDER}/{taken_at_ms:015d}.parquet")
        self.storage.write(url, stream.getvalue())

    def read(self, since_ms: int | None = None, until_ms: int | None = None) -> pa.Table:
        """Return the rows of all fleets from `since_ms` to `until_ms`, both included, ascending by time.

        None: no limit. Errors: CorruptStoreError naming the file.
        """
        urls = [
            url
            for url, taken in self._files()
            if (since_ms is None or taken >= since_ms) and (until_ms is None or taken <= until_ms)
        ]
        tables = [_parsed(url, content) for url, content in zip(urls, self.storage.read_many(urls), strict=True)]
        return pa.concat_tables(tables) if tables else HISTORY_SCHEMA.empty_table()

    def prune(self, before_ms: int) -> int:
        """Delete the fleets taken before a time, and return their number.

        Also deletes files of that time that a killed process was writing.
        """
        old = [url for url, taken in self._files() if taken < before_ms]
        folder = join_url(self.root, FLEET_FOLDER)
        unfinished = [name for name in self.storage.names(folder) if name.startswith(TEMPORARY_PREFIX)]
        found = self.storage.statuses([join_url(folder, name) for name in unfinished])
        left = [file.path for file in found if file is not None and file.modification_time < before_ms]
        self.storage.delete([*old, *left])
        return len(old)

    def _files(self) -> Iterator[tuple[str, int]]:
        folder = join_url(self.root, FLEET_FOLDER)
        for name in self.storage.names(folder):
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
