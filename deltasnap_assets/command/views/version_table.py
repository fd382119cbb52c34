"""Stored versions as a table for the terminal: operation, size, changes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from rich.box import SIMPLE_HEAD
from rich.table import Table

from deltasnap_assets.command.terminal import shown
from deltasnap_assets.quantities import bytes_text
from deltasnap_assets.tables.changes import state_changes
from deltasnap_core import CommitInfo, SnapshotStore
from deltasnap_core.support import VersionChanges


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
            shown("; ".join((*files_changed(changes), *(() if before is None else state_changes(before, state))))),
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
