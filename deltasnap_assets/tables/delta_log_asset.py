"""The asset that stands for the table itself, observed at each new version: `<table>/delta_log`.

What depends on it with `AutomationCondition.eager()` is asked for once for each batch of commits: Dagster compares the
data versions of observable assets, the version here, where it ignores observations of assets that are merely external.
"""

# No `from __future__ import annotations` here: Dagster reads the annotation of `context` and takes no text for it.
# ruff: noqa: I002

import dagster as dg

from deltasnap_assets.runs.plan import delta_log_key, log_of, observed_by_hand
from deltasnap_assets.settings.config import TableSettings
from deltasnap_assets.texts import secrets_hidden
from deltasnap_core import redacted


def code_references(table: TableSettings) -> dict[str, dg.CodeReferencesMetadataValue]:
    """Return the metadata that leads to where the table is configured; nothing where no file says so."""
    if table.defined_at is None:
        return {}
    file, line = table.defined_at
    place = dg.LocalFileCodeReference(file_path=file, line_number=line, label="configuration")
    return {"dagster/code_references": dg.CodeReferencesMetadataValue(code_references=[place])}


def delta_log_asset(table: TableSettings) -> dg.SourceAsset:
    """`<table>/delta_log`. Observing it by hand looks at the log, and stores nothing."""

    @dg.observable_source_asset(
        key=delta_log_key(table.name),
        group_name=table.name,
        description=table.description or "The Delta table itself, observed as its commits arrive.",
        metadata={"dagster/uri": redacted(table.path), "dagster/table_name": table.name, **code_references(table)},
        tags={"dagster/kind/deltalake": "", **table.tags},
    )
    @secrets_hidden()
    def delta_log(context: dg.AssetExecutionContext) -> dg.ObserveResult:
        seen = observed_by_hand(context.instance, table, log_of(table).status())
        tags = dict(seen.tags)
        return dg.ObserveResult(
            metadata=seen.metadata, data_version=dg.DataVersion(tags.pop("dagster/data_version")), tags=tags
        )

    return delta_log
