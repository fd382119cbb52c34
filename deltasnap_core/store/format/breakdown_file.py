"""The Parquet file with the FileBreakdown of a stored version: one row for each group and each of its named files.

It is derived data: it can be counted again from the rows of the version, and readers ignore a file that they cannot
use. It names the version that it belongs to, so that it is never used for another one.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from io import BytesIO
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from deltasnap_core.log.checkpoints.verified_parquet import UNREADABLE, verified_parquet
from deltasnap_core.rules.totals.file_breakdown import (
    FileBreakdown,
    FileSums,
    RankedFiles,
    SizedFile,
    partition_of,
)
from deltasnap_core.rules.totals.tombstone_times import TombstoneTimes
from deltasnap_core.store.format.manifest import VersionManifest
from deltasnap_core.store.format.shared_documents import document_digest

BREAKDOWN_FORMAT = 2
"""The format of the files written here. It changes with the rules of `rules/totals/file_breakdown.py`."""

BREAKDOWN_ROWS = pa.schema(
    [
        ("kind", pa.string()),
        ("number", pa.int64()),
        ("partition", pa.map_(pa.string(), pa.string())),
        ("path", pa.string()),
        ("files", pa.int64()),
        ("size", pa.decimal128(38, 0)),
        ("without_size", pa.int64()),
    ]
)
"""kind:      `size_bin`, `partition`, `deleted_at`, `largest`, `smallest`.
number:       the bin, or the time of deletion (ms; 0: not stated).
partition:    the values of a partition. path: of one of the largest or smallest files.
files, size:  number and bytes of live files or of tombstones; of tombstones, the bytes of those with a size.
without_size: the number of tombstones without a size.
"""

_TIMES = "deleted_at"
_COLUMNS_OF_TIMES = ("number", "files", "size", "without_size")
"""The columns of BREAKDOWN_ROWS that have those of `TombstoneTimes`."""

_KEY, _DIGEST = b"deltasnap", b"deltasnap.digest"


def breakdown_bytes(breakdown: FileBreakdown, manifest: VersionManifest) -> bytes | None:
    """Return the content of the file for a version; None: the version has no identity that a file could name."""
    belongs_to = _belongs_to(manifest)
    if belongs_to is None:
        return None
    facts = {
        **belongs_to,
        "numPartitions": breakdown.num_partitions,
        "hasDeletions": breakdown.deletions is not None,
        "largestBound": breakdown.largest.bound,
        "smallestBound": breakdown.smallest.bound,
    }
    rows = [pa.Table.from_pylist(list(_rows(breakdown)), BREAKDOWN_ROWS)]
    if breakdown.deletions is not None:
        rows.append(_rows_of_times(breakdown.deletions))
    text = json.dumps(facts)
    table = pa.concat_tables(rows).replace_schema_metadata({_KEY: text, _DIGEST: document_digest(text.encode())})
    stream = BytesIO()
    pq.write_table(table, stream, compression="zstd", write_page_checksum=True)
    return stream.getvalue()


def breakdown_of(content: bytes, manifest: VersionManifest) -> FileBreakdown | None:
    """Return the breakdown from the bytes of a file; None: it belongs to another version.

    Errors: ValueError stating the problem.
    """
    try:
        table = verified_parquet(BytesIO(content)).read()
        metadata = table.schema.metadata or {}
        if metadata[_DIGEST] != document_digest(metadata[_KEY]).encode():
            raise ValueError("its digest does not match")
        facts = json.loads(metadata[_KEY])
        belongs_to = _belongs_to(manifest)
        if belongs_to is None or any(facts.get(name) != value for name, value in belongs_to.items()):
            return None
        return _breakdown(facts, table.cast(BREAKDOWN_ROWS))
    except (*UNREADABLE, KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"expected the groups of a version, found other content: {error}") from error


def _belongs_to(manifest: VersionManifest) -> dict[str, Any] | None:
    """Return the values that determine the counted rows of a version: its log, and the tombstones that it keeps."""
    if manifest.identity is None:
        return None
    return {
        "format": BREAKDOWN_FORMAT,
        "version": manifest.version,
        "chain": manifest.identity.chain,
        "minFileRetentionTimestamp": manifest.min_file_retention_timestamp,
    }


def _rows(breakdown: FileBreakdown) -> Iterator[dict[str, Any]]:
    for number, sums in breakdown.sizes.items():
        yield {"kind": "size_bin", "number": number, **sums._asdict()}
    for values, sums in breakdown.partitions.items():
        yield {"kind": "partition", "partition": list(values), **sums._asdict()}
    for kind, named in (("largest", breakdown.largest), ("smallest", breakdown.smallest)):
        for path, size in named.files:
            yield {"kind": kind, "path": path, "files": 1, "size": size}


def _rows_of_times(times: TombstoneTimes) -> pa.Table:
    columns = {"kind": pa.repeat(_TIMES, len(times)), **dict(zip(_COLUMNS_OF_TIMES, times.rows.columns, strict=True))}
    missing = {field.name: pa.nulls(len(times), field.type) for field in BREAKDOWN_ROWS if field.name not in columns}
    return pa.table({**columns, **missing}).select(BREAKDOWN_ROWS.names).cast(BREAKDOWN_ROWS)


def _breakdown(facts: Mapping[str, Any], rows: pa.Table) -> FileBreakdown:
    is_time = pc.equal(rows["kind"], _TIMES)
    times = rows.filter(is_time).select(_COLUMNS_OF_TIMES).rename_columns(TombstoneTimes.ROWS.names)
    by_kind: dict[str, list[Mapping[str, Any]]] = {}
    for row in rows.filter(pc.invert(is_time)).to_pylist():
        by_kind.setdefault(row["kind"], []).append(row)

    def named(kind: str, *, largest_first: bool) -> RankedFiles:
        files = tuple((row["path"], int(row["size"])) for row in by_kind.get(kind, ()))
        return RankedFiles(files=files, bound=_bound(facts[f"{kind}Bound"]), largest_first=largest_first)

    return FileBreakdown(
        sizes={row["number"]: FileSums(*_sums(row)) for row in by_kind.get("size_bin", ())},
        partitions={partition_of(row["partition"]): FileSums(*_sums(row)) for row in by_kind.get("partition", ())},
        num_partitions=facts["numPartitions"],
        deletions=TombstoneTimes(times) if facts["hasDeletions"] else None,
        largest=named("largest", largest_first=True),
        smallest=named("smallest", largest_first=False),
    )


def _sums(row: Mapping[str, Any]) -> tuple[int, int]:
    return row["files"], int(row["size"])


def _bound(value: Any) -> SizedFile | None:
    if value is None:
        return None
    path, size = value
    return path, size
