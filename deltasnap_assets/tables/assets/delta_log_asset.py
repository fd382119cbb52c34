"""The external asset of the table itself, `<table>/delta_log`. It is observed at each new version.

An asset that depends on it with `AutomationCondition.eager()` is requested once for each batch of commits: Dagster
compares the data versions of observable assets, here the table version. It ignores observations of external assets.
"""

# No `from __future__ import annotations` here: Dagster inspects the annotation of `context` and rejects a string.
# ruff: noqa: I002

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import dagster as dg

from deltasnap_assets.runs.planning.known_table import observed_by_hand
from deltasnap_assets.runs.planning.names import table_key
from deltasnap_assets.runs.stores import log_of
from deltasnap_assets.settings.table_settings import TableSettings
from deltasnap_assets.tables.assets.steps import observation_step
from deltasnap_core.support import redacted


def code_references(table: TableSettings) -> dict[str, dg.CodeReferencesMetadataValue]:
    """Return the metadata that links to the configuration of the table; empty if no file configures it."""
    if table.defined_at is None:
        return {}
    file, line = table.defined_at
    place = dg.LocalFileCodeReference(file_path=file, line_number=line, label="configuration")
    return {"dagster/code_references": dg.CodeReferencesMetadataValue(code_references=[place])}


def delta_log_asset(table: TableSettings) -> dg.AssetsDefinition:
    """Return `<table>/delta_log`. A manual observation reads the log and stores nothing."""
    spec = dg.AssetSpec(
        table_key(table),
        group_name=table.group_name,
        description=table.description or "The Delta table itself, observed at each new version.",
        deps=[dg.AssetKey.from_user_string(key) for key in table.deps],
        metadata={
            **({"dagster/uri": redacted(table.path)} if table.path else {}),
            "dagster/table_name": table.table_name or table.table or table.name,
            "dagster/storage_kind": "deltalake",
            **code_references(table),
        },
        kinds={"deltalake"},
        owners=table.owners,
        tags=table.tags,
    )
    return observation_step(spec, partial(_observe, table))


def _observe(table: TableSettings, context: dg.AssetExecutionContext) -> Iterator[dg.ObserveResult]:
    seen = observed_by_hand(context.instance, table, log_of(table).status())
    # The data version stays a tag. Dagster adds another tag for a `data_version`, and the next observation would count
    # as an update.
    yield dg.ObserveResult(metadata=seen.metadata, tags=seen.tags)


def observe_job(name: str, tables: Sequence[TableSettings]) -> Any:
    """Return a job that observes `<table>/delta_log` of the tables of a sensor.

    The sensor targets it too: Dagster attaches a sensor to an asset only through a job that executes the asset.
    """
    logs = f"log of {tables[0].name}" if len(tables) == 1 else f"logs of {len(tables)} tables"
    return dg.define_asset_job(
        name,
        dg.AssetSelection.assets(*(table_key(table) for table in tables)),
        description=f"Reads the {logs} and records what it finds. Materializes nothing.",
        executor_def=dg.in_process_executor,
    )
