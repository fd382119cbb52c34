"""The component for `dg` projects: it defines the tables of a `defs.yaml`.

    type: deltasnap_assets.DeltaTableSnapshots
    attributes:
      storage: s3://lake/snapshots
      tables:
        - {name: events, path: s3://lake/events}

The keys are the same as in `deltasnap.yaml`, including `discover`. A relative table path is relative to the file. A
relative `storage` is relative to the project's folder, to keep the store out of the source files. A project has
one such file: its tables share the Spark session and the store, whose resource names are unique in Dagster.
"""

from __future__ import annotations

from typing import Annotated, Any

import dagster as dg
from pydantic import BaseModel, Field

from deltasnap_assets.all_definitions import build_definitions
from deltasnap_assets.component_file import ComponentAttributes, settings_of
from deltasnap_assets.component_templates import Environment, resolved
from deltasnap_assets.settings.config import DEFAULT_FLEET_ASSET, DEFAULT_STORAGE
from deltasnap_assets.settings.discovery import with_discovered
from deltasnap_assets.settings.loading import with_absolute_paths
from deltasnap_assets.settings.yaml_source import ConfigError, ConfigProblem
from deltasnap_core.support import redacted

_Resolved = Annotated[Any, dg.Resolver(resolved, inject_before_resolve=False)]


class _ExampleTable(dg.Scaffolder[Any]):
    """The scaffolder of `dg scaffold defs`: writes a `defs.yaml` in which only the path must be changed."""

    def scaffold(self, request: dg.ScaffoldRequest[Any]) -> None:
        """Write the file of a new component."""
        dg.scaffold_component(request, {"tables": [{"name": "events", "path": "s3://lake/events"}]})


@dg.scaffold_with(_ExampleTable)
class DeltaTableSnapshots(dg.Component, dg.Model, dg.Resolvable):
    """Every version of Delta tables as assets, from their transaction logs."""

    # Values as in the file, with resolved templates: `settings_of` checks them.
    tables: _Resolved = ()
    discover: _Resolved = ()
    storage: _Resolved = str(DEFAULT_STORAGE)
    storage_options: _Resolved = Field(default={}, repr=False)
    spark: _Resolved = Field(default={}, repr=False)
    alerts: _Resolved = Field(default={}, repr=False)
    fleet_asset: _Resolved = DEFAULT_FLEET_ASSET
    default_status: _Resolved = "running"

    @classmethod
    def model(cls) -> type[BaseModel]:
        """Return the model with which Dagster reads the attributes."""
        return ComponentAttributes

    @staticmethod
    @dg.template_var
    def env() -> Environment:
        """Return the value of `env` in templates."""
        return Environment()

    def __repr__(self) -> str:
        return redacted(super().__repr__())

    def build_defs(self, context: dg.ComponentLoadContext) -> dg.Definitions:
        """Return the definitions of the tables, for merging with those of the project. Errors: ConfigError."""
        file = str(context.path / "defs.yaml")
        if len(context.component_tree.get_all_components(DeltaTableSnapshots)) > 1:
            reason = (
                "the project has a second component of this type, in another file or after a `---` in this one: put "
                "all tables into one component, they share the store"
            )
            raise ConfigError(file=file, problems=(ConfigProblem(reason=reason, key="type"),))
        settings = settings_of({name: getattr(self, name) for name in type(self).model_fields}, file)
        absolute = with_absolute_paths(settings, context.path, storage_folder=context.project_root)
        return build_definitions(with_discovered(absolute))
