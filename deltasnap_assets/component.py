"""The component for `dg` projects: it defines the tables of a `defs.yaml`.

    type: deltasnap_assets.DeltaTableSnapshotsComponent
    attributes:
      storage: s3://lake/snapshots
      tables:
        - {name: events, path: s3://lake/events}

The keys are the same as in `deltasnap.yaml`, including `discover`, with `translation` and `defs_state` of Dagster. A
relative table path is relative to the file, or to the project's folder for a component that is made in Python. A
relative `storage` is relative to the project's folder, to keep the store out of the source files.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import dagster as dg
from dagster.components import DefsStateConfig, DefsStateConfigArgs, ResolvedDefsStateConfig
from pydantic import BaseModel, Field, PrivateAttr

from deltasnap_assets.all_definitions import build_definitions, definitions_of_store, definitions_of_tables
from deltasnap_assets.component_file import OF_DAGSTER, ComponentAttributes, settings_of
from deltasnap_assets.component_group import Group, Member
from deltasnap_assets.component_templates import Environment, resolved
from deltasnap_assets.dagster_internals import (
    DefinitionsLoadContext,
    DefsStateManagementType,
    TranslationFn,
    TranslationFnResolver,
)
from deltasnap_assets.runs.planning.names import asset_key
from deltasnap_assets.settings.config import DEFAULT_FLEET_ASSET, DEFAULT_STORAGE, Settings
from deltasnap_assets.settings.discovery import FoundTables, found_from_json, found_tables, found_to_json, with_found
from deltasnap_assets.settings.loading import with_absolute_paths
from deltasnap_assets.settings.store_place import check_store_place
from deltasnap_assets.settings.table_settings import ASSET_NAMES, TABLE_ASSET, TableSettings
from deltasnap_core import DeltaSnapError
from deltasnap_core.support import redacted, safe_repr

_Resolved = Annotated[Any, dg.Resolver(resolved, inject_before_resolve=False)]


@safe_repr
@dataclass(frozen=True, slots=True, kw_only=True)
class DeltaTableAsset:
    """An asset of a table. name: `delta_log` is the table itself. spec: as deltasnap defines it."""

    table: TableSettings
    name: str
    spec: dg.AssetSpec


class _ExampleTable(dg.Scaffolder[Any]):
    """The scaffolder of `dg scaffold defs`: writes a `defs.yaml` in which only the path must be changed."""

    def scaffold(self, request: dg.ScaffoldRequest[Any]) -> None:
        """Write the file of a new component."""
        dg.scaffold_component(request, {"tables": [{"name": "events", "path": "s3://lake/events"}]})


_Translation = Annotated[
    TranslationFn[DeltaTableAsset],
    TranslationFnResolver(lambda props: {"table": props.table.name, "asset": props.name}),
]


@dg.scaffold_with(_ExampleTable)
class DeltaTableSnapshotsComponent(dg.StateBackedComponent, dg.Model, dg.Resolvable):
    """Every version of Delta tables as assets, from their transaction logs."""

    # Values as in the file, with resolved templates: `settings_of` checks them.
    tables: _Resolved = ()
    discover: _Resolved = ()
    storage: _Resolved = str(DEFAULT_STORAGE)
    storage_options: _Resolved = Field(default={}, repr=False)
    spark: _Resolved = Field(default={}, repr=False)
    catalogs: _Resolved = Field(default={}, repr=False)
    alerts: _Resolved = Field(default={}, repr=False)
    fleet_asset: _Resolved = DEFAULT_FLEET_ASSET
    default_status: _Resolved = "running"
    translation: _Translation | None = None
    defs_state: ResolvedDefsStateConfig = Field(default_factory=DefsStateConfigArgs.legacy_code_server_snapshots)
    _folder: Path | None = PrivateAttr(default=None)
    _project: dg.ComponentLoadContext | None = PrivateAttr(default=None)

    @classmethod
    def model(cls) -> type[BaseModel]:
        """Return the model with which Dagster reads the attributes."""
        return ComponentAttributes

    @classmethod
    def load(cls, attributes: BaseModel | None, context: dg.ComponentLoadContext) -> DeltaTableSnapshotsComponent:
        """Return the component of a file."""
        component = super().load(attributes, context)
        component._folder, component._project = context.path, context
        return component

    @staticmethod
    @dg.template_var
    def env() -> Environment:
        """Return the value of `env` in templates."""
        return Environment()

    def __repr__(self) -> str:
        return redacted(super().__repr__())

    @property
    def defs_state_config(self) -> DefsStateConfig:
        """The place of the state, the discovered tables: by default, they are listed once per code location."""
        key = f"DeltaTableSnapshots[{redacted(str(self.storage))}]"
        return DefsStateConfig.from_args(self.defs_state, default_key=key)

    def get_asset_spec(self, props: DeltaTableAsset) -> dg.AssetSpec:
        """Return the spec of an asset of a table. Override it to change specs, except for their keys and partitions.

        class LakeTables(DeltaTableSnapshotsComponent):
            def get_asset_spec(self, props: DeltaTableAsset) -> dg.AssetSpec:
                return super().get_asset_spec(props).merge_attributes(tags={"lake": "bronze"})
        """
        return props.spec if self.translation is None else self.translation(props.spec, props)

    def build_defs(self, context: dg.ComponentLoadContext) -> dg.Definitions:
        """Return the definitions of the tables, for merging with those of the project. Errors: ConfigError."""
        self._project = context
        group, kept = self._group(), self.defs_state.management_type
        is_in_memory = kept is DefsStateManagementType.LEGACY_CODE_SERVER_SNAPSHOTS
        if group.settings.discover and (DefinitionsLoadContext.is_set() or not is_in_memory):
            return super().build_defs(context)
        # Nothing is discovered, or a script loads the project: then Dagster keeps no state in memory.
        return self._defs(group, found_tables(group.settings))

    def write_state_to_path(self, state_path: Path) -> None:
        """List the tables that the patterns match, and write their paths."""
        settings = self._group().settings
        state_path.write_text(found_to_json(settings, found_tables(settings)), encoding="utf-8")

    def build_defs_from_state(self, context: dg.ComponentLoadContext, state_path: Path | None) -> dg.Definitions:  # noqa: ARG002
        """Return the definitions of the tables in the file, and of the discovered ones in the state."""
        group = self._group()
        found = {} if state_path is None else found_from_json(group.settings, state_path.read_text(encoding="utf-8"))
        return self._defs(group, found)

    def _defs(self, group: Group, found: FoundTables) -> dg.Definitions:
        complete = with_found(group.settings, found)
        check_store_place(complete)
        defs = definitions_of_tables(group.own_part(complete, found), group.own_suffix)
        if group.own == 0:
            shared = definitions_of_store(complete, lambda: build_definitions(complete))
            defs = dg.Definitions.merge(defs, shared)
        return defs.map_asset_specs(func=self._translated(complete))

    def _translated(self, settings: Settings) -> Callable[[dg.AssetSpec], dg.AssetSpec]:
        """Return the function that changes the specs of tables, and no other ones."""
        names = (TABLE_ASSET, *ASSET_NAMES)
        assets = {asset_key(table, name): (table, name) for table in settings.tables for name in names}

        def translated(spec: dg.AssetSpec) -> dg.AssetSpec:
            if spec.key not in assets:  # the asset of all tables
                return spec
            table, name = assets[spec.key]
            found = self.get_asset_spec(DeltaTableAsset(table=table, name=name, spec=spec))
            if (found.key, found.partitions_def) != (spec.key, spec.partitions_def):
                raise DeltaSnapError(
                    f"The translation of asset {spec.key.to_user_string()} changes its key or its partitions. For "
                    f"another key, set `asset_key` or `key_prefix` of table {table.name}."
                )
            return found

        return translated

    def _group(self) -> Group:
        """Return the components of the project with the store of this one. Errors: ConfigError."""
        if self._project is None:
            raise DeltaSnapError("A component that is made in Python lists its tables only when it is loaded.")
        found = self._project.component_tree.get_all_components(DeltaTableSnapshotsComponent)
        components = found if any(each is self for each in found) else [*found, self]
        members = [component._member(self._project.project_root) for component in components]
        return Group.of(members, next(index for index, each in enumerate(components) if each is self))

    def _member(self, project_root: Path) -> Member:
        folder = self._folder or project_root
        values = {name: getattr(self, name) for name in ComponentAttributes.model_fields if name not in OF_DAGSTER}
        settings = settings_of(values, str(folder / "defs.yaml"))
        absolute = with_absolute_paths(settings, folder, storage_folder=project_root)
        return Member(file=folder / "defs.yaml", settings=absolute)


DeltaTableSnapshots = DeltaTableSnapshotsComponent
"""The earlier name of the component."""
