"""The component for `dg` projects: the tables of a `defs.yaml`, on the code of the app.

    type: deltasnap_assets.DeltaTableSnapshots
    attributes:
      storage: s3://lake/snapshots
      tables:
        - {name: events, path: s3://lake/events}

The keys are those of `deltasnap.yaml`, `discover` too. A relative path of a table is relative to the file, a relative
`storage` to the project's folder: the store has no place among the source files. A project has one such file: its
tables share the Spark session and the store, which Dagster knows by one name.
"""

from __future__ import annotations

from typing import Any

import dagster as dg
from pydantic import BaseModel, Field

from deltasnap_assets.definitions import build_definitions
from deltasnap_assets.settings.component_file import ComponentAttributes, settings_of
from deltasnap_assets.settings.config import DEFAULT_STORAGE, with_absolute_paths
from deltasnap_assets.settings.discovery import with_discovered
from deltasnap_core import redacted


class _ExampleTable(dg.Scaffolder[Any]):
    """Writes a `defs.yaml` that needs another path only: what `dg scaffold defs` makes."""

    def scaffold(self, request: dg.ScaffoldRequest[Any]) -> None:
        """Write the file of a new component."""
        dg.scaffold_component(request, {"tables": [{"name": "events", "path": "s3://lake/events"}]})


@dg.scaffold_with(_ExampleTable)
class DeltaTableSnapshots(dg.Component, dg.Model, dg.Resolvable):
    """Every version of Delta tables as assets, read from their transaction logs with PySpark."""

    # Values as in the file, their templates filled in: `settings_of` checks them.
    tables: Any = ()
    discover: Any = ()
    storage: Any = str(DEFAULT_STORAGE)
    storage_options: Any = Field(default={}, repr=False)
    spark: Any = Field(default={}, repr=False)

    @classmethod
    def model(cls) -> type[BaseModel]:
        """Return what Dagster reads the attributes with."""
        return ComponentAttributes

    def __repr__(self) -> str:
        return redacted(super().__repr__())

    def build_defs(self, context: dg.ComponentLoadContext) -> dg.Definitions:
        """Return the definitions of the tables, to be merged with those of the project. Errors: ConfigError."""
        settings = settings_of({name: getattr(self, name) for name in type(self).model_fields}, str(context.path))
        absolute = with_absolute_paths(settings, context.path, storage_folder=context.project_root)
        return build_definitions(with_discovered(absolute))
