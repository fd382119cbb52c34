"""Stored versions as a table for the terminal: operation, size, changes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from rich.box import SIMPLE_HEAD
from rich.table import Table

from deltasnap_assets.command.terminal import shown
from deltasnap_assets.quantities import bytes_text
from deltasnap_core import CommitInfo, Metadata, SnapshotState, SnapshotStore, VersionChanges, parse_schema


def version_table(store: SnapshotStore, table: str, versions: Sequence[int], operations: Mapping[int, str]) -> Table:
    """Return one row per version: number, operation, files, bytes, tombstones, changes since the version before.

    `versions`: ascending, stored. `operations`: by version; a version without one is shown as unknown.
    """
    rows = Table(
        box=SIMPLE_HEAD,
        padding=(0, 1, 0, 0),
        header_style="bold",
        title=f"{table}: stored versions",
        title_justify="left",
    )
    for name in ("version", "operation", "files", "size", "tombstones", "what changed"):
        rows.add_column(name, justify="left" if name in ("operation", "what changed") else "right", overflow="fold")
    stored = set(store.versions(table))
    before = store.computed_state(table, versions[0] - 1) if versions and versions[0] - 1 in stored else None
    for version in versions:
        state = store.computed_state(table, version)
        changes = store.manifest(table, version).version_changes
        rows.add_row(
            str(version),
            shown(operations.get(version) or "unknown"),
            f"{state.num_of_files:,}",
            bytes_text(state.size_in_bytes),
            f"{state.num_of_removes:,}",
            shown(", ".join((*files_changed(changes), *_rest_changed(before, state)))),
        )
        before = state
    return rows


def operation_text(commit: CommitInfo) -> str:
    """Return the operation of a version, and its mode if there is one."""
    mode = (commit.operation_parameters or {}).get("mode") if commit.operation == "WRITE" else None
    return (commit.operation or "unknown") + (f" ({str(mode).lower()})" if mode else "")


def files_changed(changes: VersionChanges | None) -> Iterable[str]:
    """Yield how many files were added and removed: "+6 -22 files"; nothing if it is not known."""
    if changes is None:
        return
    counts = (("+", changes.num_added_files), ("-", changes.num_removed_files))
    if texts := [f"{sign}{count:,}" for sign, count in counts if count]:
        yield f"{' '.join(texts)} {'file' if texts in (['+1'], ['-1']) else 'files'}"


def _rest_changed(before: SnapshotState | None, state: SnapshotState) -> Iterable[str]:
    if before is None or before.metadata is None or state.metadata is None:
        return
    yield from metadata_changed(before.metadata, state.metadata)
    if before.protocol != state.protocol:
        yield "protocol"


def metadata_changed(before: Metadata, metadata: Metadata) -> Iterable[str]:
    """Yield the columns and properties that were added, dropped or changed, as text."""
    try:
        columns = _column_texts(before), _column_texts(metadata)
    except (ValueError, RecursionError):
        if before.schema_string != metadata.schema_string:
            yield "schema"
    else:
        yield from _changed("column", *columns)
    yield from _changed("property", before.configuration, metadata.configuration)


def _changed(what: str, before: Mapping[str, str], after: Mapping[str, str]) -> Iterable[str]:
    yield from (f"{what} {name} added" for name in after if name not in before)
    yield from (f"{what} {name} dropped" for name in before if name not in after)
    yield from (f"{what} {name} changed" for name in after if name in before and before[name] != after[name])


def _column_texts(metadata: Metadata) -> dict[str, str]:
    return {field.name: field.json() for field in parse_schema(metadata.schema_string).fields}
