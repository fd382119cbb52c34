"""Changes of a table between two versions, except its files: schema, properties, protocol, domains."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from deltasnap_assets.tables.pages.column_schema import Column, columns_of
from deltasnap_assets.texts import visible
from deltasnap_core import Metadata, Protocol, SnapshotState
from deltasnap_core.support import column_mapping_mode

_ROW_IDS = "delta.rowTracking"
"""The domain with the highest row id, which changes with each insert."""


def state_changes(before: SnapshotState, after: SnapshotState) -> tuple[str, ...]:
    """Return each change as one line: "column country added (string)"; empty: nothing changed."""
    changes: list[str] = []
    if before.metadata is not None and after.metadata is not None:
        changes += metadata_changes(before.metadata, after.metadata)
    if before.protocol is not None and after.protocol is not None:
        changes += protocol_changes(before.protocol, after.protocol)
    changes += domain_changes(
        *({domain.domain: domain.configuration for domain in state.domain_metadata} for state in (before, after))
    )
    return tuple(visible(change) for change in changes)


def metadata_changes(before: Metadata, after: Metadata) -> Iterator[str]:
    """Yield the changes of the table's metadata."""
    if before.id != after.id:
        yield f"different table: id {after.id}, was {before.id}"
    yield from schema_changes(before, after)
    yield from _changed("property", before.configuration, after.configuration)
    for what in ("name", "description"):
        if (old := getattr(before, what)) != (new := getattr(after, what)):
            yield f"{what} {new!r}, was {old!r}"


def schema_changes(before: Metadata, after: Metadata) -> Iterator[str]:
    """Yield the changes of columns, including nested ones, and of the partitioning.

    Columns are not compared if one of the two schemas cannot be read: the rest of the table can still be compared.
    """
    old: dict[tuple[str, ...], Column] = {}
    new: dict[tuple[str, ...], Column] = {}
    if before.schema_string != after.schema_string:
        # A column that was dropped and added again, or that swapped its name with another one, has other data.
        is_mapped = column_mapping_mode(after.configuration) != "none"
        try:
            old, new = (
                {column.path: column for column in columns_of(each, is_mapped=is_mapped)} for each in (before, after)
            )
        except (ValueError, RecursionError) as error:
            yield f"schema changed, and its columns cannot be compared: {error}"
    yield from (f"column {column.name} added ({column.type})" for path, column in new.items() if path not in old)
    yield from (f"column {column.name} dropped ({column.type})" for path, column in old.items() if path not in new)
    kept = [(old[path], column) for path, column in new.items() if path in old]
    yield from (f"column {column.name} renamed, was {was.name}" for was, column in kept if column.name != was.name)
    for was, column in kept:
        if changed := ", ".join(_column_changes(was, column)):
            yield f"column {column.name} {changed}"
        for item, nullable in column.items.items():
            if was.items.get(item, nullable) != nullable:
                yield f"column {column.name}{item} {_nullability(nullable)}"
    if [was.path for was, _ in kept] != [path for path in old if path in new]:
        yield "columns are in another order"
    names = {was.name: column.name for was, column in kept if len(column.path) == 1}
    if tuple(names.get(name, name) for name in before.partition_columns) != after.partition_columns:
        yield f"partitioned by {_names(after.partition_columns)}, was {_names(before.partition_columns)}"


def protocol_changes(before: Protocol, after: Protocol) -> Iterator[str]:
    """Yield the changes of the protocol: versions and features required from readers and writers."""
    for what in ("reader", "writer"):
        if (old := getattr(before, f"min_{what}_version")) != (new := getattr(after, f"min_{what}_version")):
            yield f"{what} version {new}, was {old}"
    yield from (f"feature {name} added" for name in sorted(after.features - before.features))
    yield from (f"feature {name} dropped" for name in sorted(before.features - after.features))


def domain_changes(before: Mapping[str, str], after: Mapping[str, str]) -> Iterator[str]:
    """Yield the changes of domains, given by name with their configuration."""
    row_ids = {_ROW_IDS: before[_ROW_IDS]} if _ROW_IDS in before and _ROW_IDS in after else {}
    yield from _changed("domain", before, {**after, **row_ids})


def _column_changes(old: Column, new: Column) -> Iterator[str]:
    if old.type != new.type:
        yield f"is {new.type}, was {old.type}"
    if old.nullable != new.nullable:
        yield _nullability(new.nullable)
    if old.comment != new.comment:
        yield f"comment {new.comment!r}, was {old.comment!r}"
    yield from _changed("property", old.settings, new.settings)


def _nullability(nullable: bool) -> str:
    return "is now nullable" if nullable else "is no longer nullable"


def _changed(what: str, before: Mapping[str, str], after: Mapping[str, str]) -> Iterator[str]:
    yield from (f"{what} {name} = {value} added" for name, value in after.items() if name not in before)
    yield from (f"{what} {name} dropped, was {value}" for name, value in before.items() if name not in after)
    yield from (
        f"{what} {name} = {value}, was {before[name]}"
        for name, value in after.items()
        if name in before and before[name] != value
    )


def _names(names: tuple[str, ...]) -> str:
    return ", ".join(names) or "nothing"
