"""The component for `dg` projects: the tables of a `defs.yaml`, on the code of the app.

    type: deltasnap_assets.DeltaTableSnapshots
    attributes:
      storage: s3://lake/snapshots
      tables:
        - {name: events, path: s3://lake/events}

The keys are those of `deltasnap.yaml`, `discover` too; relative paths are relative to the file. A project has one such
file: what its tables share, the Spark session and the store, Dagster knows by one name.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Annotated, Any, TypeVar

import dagster as dg
from pydantic import BaseModel, Field

from deltasnap_assets.definitions import build_definitions
from deltasnap_assets.settings.config import (
    DEFAULT_STORAGE,
    DiscoverSettings,
    Settings,
    SparkSettings,
    TableSettings,
    with_absolute_paths,
)
from deltasnap_assets.settings.discovery import with_discovered

M = TypeVar("M", bound=BaseModel)


def _resolved(context: dg.ResolutionContext, model: M) -> M:
    """Return the settings with every template in them, such as `{{ env.SECRET }}`, filled in and checked again."""
    return type(model).model_validate(context.resolve_value(model.model_dump(exclude_unset=True)))


def _each_resolved(context: dg.ResolutionContext, models: Sequence[M]) -> list[M]:
    return [_resolved(context, model) for model in models]


class _ExampleTable(dg.Scaffolder[Any]):
    """Writes a `defs.yaml` that needs another path only: what `dg scaffold defs` makes."""

    def scaffold(self, request: dg.ScaffoldRequest[Any]) -> None:
        """Write the file of a new component."""
        dg.scaffold_component(request, {"tables": [{"name": "events", "path": "s3://lake/events"}]})


@dg.scaffold_with(_ExampleTable)
class DeltaTableSnapshots(dg.Component, dg.Model, dg.Resolvable):
    """Every version of Delta tables as assets, read from their transaction logs with PySpark."""

    # `Any` for Dagster: it takes no model with validators here, but checks the file by `model_field_type` all the same.
    tables: Annotated[
        Any,
        dg.Resolver(_each_resolved, model_field_type=Sequence[TableSettings]),
        Field(description="The tables to follow."),
    ] = ()
    discover: Annotated[
        Any,
        dg.Resolver(_each_resolved, model_field_type=Sequence[DiscoverSettings]),
        Field(description="Tables to follow by pattern."),
    ] = ()
    storage: Annotated[
        str,
        Field(description="Where the store lies: a folder, relative to this file, or an fsspec URL."),
    ] = str(DEFAULT_STORAGE)
    storage_options: Annotated[
        dict[str, Any],
        Field(description="Options of the store's filesystem, for fsspec.", repr=False),
    ] = {}  # noqa: RUF012  # pydantic copies it
    spark: Annotated[
        Any,
        dg.Resolver(_resolved, model_field_type=SparkSettings),
        Field(description="The Spark session: master or remote, and its configuration."),
    ] = SparkSettings()

    def build_defs(self, context: dg.ComponentLoadContext) -> dg.Definitions:
        """Return the definitions of the tables, to be merged with those of the project."""
        if not self.tables and not self.discover:
            raise ValueError(f"{context.path}: expected tables, or discover.")
        settings = Settings(
            discover=tuple(self.discover),
            tables=tuple(self.tables),
            storage=self.storage,
            storage_options=self.storage_options,
            spark=self.spark,
        )
        counts = Counter(table.name.casefold() for table in settings.tables)
        if twice := [name for name, count in counts.items() if count > 1]:
            raise ValueError(f"{context.path}: several tables are named {', '.join(twice)}.")
        return build_definitions(with_discovered(with_absolute_paths(settings, context.path)))
