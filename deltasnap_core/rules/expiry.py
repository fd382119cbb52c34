"""Selects the tombstones that a version keeps, and those that expire between two versions. In SQL and in Arrow.

`deleted_at` is the deletion time (ms); null: a live file, which never expires.
Source: PROTOCOL.md, Action Reconciliation. Delta's `minFileRetentionTimestamp`.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from deltasnap_core.protocol.properties.retention import Retention


def kept_sql(retention: Retention, deleted_at: str) -> str:
    """Return an SQL condition for rows that have not expired.

    Example: `deleted_at is null or deleted_at > 5`.
    """
    until = retention.expired_until
    return "true" if until is None else kept_after_sql(str(until), deleted_at)


def kept_after_sql(until: str, deleted_at: str) -> str:
    """Return an SQL condition for rows that have not expired. until: SQL for the end of expiry, not null."""
    return f"{deleted_at} is null or {deleted_at} > {until}"


def unexpired(rows: pa.Table, retention: Retention) -> pa.Table:
    """Return the rows (with `deleted_at`) that have not expired."""
    if retention.expired_until is None:
        return rows
    return rows.filter(pc.fill_null(pc.greater(rows["deleted_at"], retention.expired_until), True))


def expiring_sql(before: Retention, after: Retention, deleted_at: str) -> str:
    """Return an SQL condition for tombstones that one retention keeps and a later one does not.

    Example: `deleted_at > 5 and deleted_at <= 9`.
    """
    if before.is_within(after):
        return "false"
    expired = f"{deleted_at} <= {after.expired_until}"
    return expired if before.expired_until is None else f"{deleted_at} > {before.expired_until} and {expired}"


def expiring(deleted_at: pa.ChunkedArray, before: Retention, after: Retention) -> pa.ChunkedArray | None:
    """Return a mask of the tombstones that one retention keeps and a later one does not; None: there can be none."""
    if before.is_within(after):
        return None
    mask = pc.less_equal(deleted_at, after.expired_until)
    if before.expired_until is not None:
        mask = pc.and_(mask, pc.greater(deleted_at, before.expired_until))
    return pc.fill_null(mask, False)
