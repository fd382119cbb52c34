"""What `deltasnap repair` would write, or wrote."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import typer
from rich.console import Console

from deltasnap_assets.command.table_on_spark import sessions_of, spark_aside
from deltasnap_assets.command.terminal import print_problem, working
from deltasnap_assets.command.views.condition_view import counted_versions
from deltasnap_assets.quantities import counted
from deltasnap_assets.settings.loading import load_settings
from deltasnap_core import DeltaLog, SnapshotOptions, SnapshotStore
from deltasnap_core.support import Repair, redacted, to_url


def stored_name(text: str, path: str, chosen: str | None) -> str:
    """Return the name in the store of the table that a text names.

    path: of the table. chosen: as given. Errors: ConfigError; typer.BadParameter if no configured table is there.
    """
    if chosen is not None:
        return chosen
    tables = load_settings().tables
    if found := [each for each in tables if text in (each.name, each.table)]:
        return found[0].name
    if found := [each for each in tables if each.path and to_url(each.path) == to_url(path)]:
        return found[0].name
    known = ", ".join(each.name for each in tables)
    raise typer.BadParameter(f"No configured table is at {redacted(path)}. Give --stored-as NAME. Configured: {known}.")


def repaired(path: str, options: Mapping[str, Any], name: str, *, write: bool) -> Repair:
    """Return the repair of a table, written on request. name: in the store. Errors: those of `SnapshotStore.repair`."""
    settings = load_settings()
    sessions, engine = sessions_of(settings.spark), settings.spark.engine
    store = SnapshotStore.open(sessions, settings.storage, settings.storage_options, engine=engine)
    log = DeltaLog.for_table(sessions, path, storage_options=options or None, options=SnapshotOptions(engine=engine))
    with working("Repairing" if write else "Reading"), spark_aside(path):
        return store.repair(name, log, write=write)


def print_repair(repair: Repair) -> None:
    """Print a repair. The problems of the log are on stderr."""
    for problem in repair.problems:
        print_problem(Console(stderr=True), problem.mark, problem.text)
    for line in lines_of(repair):
        typer.echo(line)


def lines_of(repair: Repair) -> list[str]:
    """Return a repair as sentences."""
    if not repair.is_needed:
        return ["Nothing to repair: every reader can load the latest version.", *_unreadable(repair)]
    will = ("Wrote", "Replaced", "Renamed") if repair.is_written else ("Would write", "Would replace", "Would rename")
    lines = list[str]()
    if repair.version is not None:
        then = "now" if repair.is_written else "then"
        lines.append(
            f"{will[0]} {_checkpoint(repair)}. Every reader can {then} load version {repair.version} and later."
        )
    if repair.has_hint:
        lines.append(f"{will[1]} _last_checkpoint.")
    renamed = (f"{old} to {new}" if repair.is_written else old for old, new in repair.renamed.items())
    lines += [f"{will[2]} the damaged {names}." for names in renamed]
    end = [] if repair.is_written else ["Nothing was written. Add --write to write it."]
    return [*lines, *_unreadable(repair), *end]


def _checkpoint(repair: Repair) -> str:
    written = repair.checkpoint
    if written is None:
        return f"the checkpoint of version {repair.version}"
    if not written.is_new:
        return f"nothing: another writer has just written {written.files[0].name}"
    actions, files = written.num_of_actions or 0, written.num_of_add_files or 0
    size = f"{counted(actions, 'action')}, {counted(files, 'file')}, {written.size_in_bytes:,} bytes"
    return f"{written.files[0].name}: {size}"


def _unreadable(repair: Repair) -> list[str]:
    if not repair.unreadable:
        return []
    stay = "stays" if len(repair.unreadable) == 1 else "stay"
    text = counted_versions(repair.unreadable)
    return [f"{text[0].upper()}{text[1:]} {stay} unreadable in the log. Stored versions stay readable in the store."]
