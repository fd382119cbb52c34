"""The settings of the app: `deltasnap.yaml` as typed values, with errors that name the file, line, key and value.

Does not load PySpark, so that the command line reports errors fast. `table_settings.py` has the keys of a table.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import (
    BeforeValidator,
    ConfigDict,
    Field,
    PrivateAttr,
    SecretStr,
    ValidationInfo,
    field_validator,
    model_validator,
)

from deltasnap_assets.settings.catalogs import CatalogSettings
from deltasnap_assets.settings.settings_model import SettingsModel
from deltasnap_assets.settings.table_settings import (
    DiscoverSettings,
    FolderOrUrl,
    StorageOptions,
    TableSettings,
    accepted_key,
)
from deltasnap_core import Problem
from deltasnap_core.support import EngineUse, learn_secret

_SERVICE = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://[!-~]+")
_HTTP = re.compile(r"https?://[!-~]+")
DEFAULT_FLEET_ASSET = "fleet"
DEFAULT_STORAGE = Path(".deltasnap") / "store"


def _is_property(value: object) -> object:
    if not isinstance(value, str | int | float):  # a boolean is an int
        raise ValueError("expected text, a number, true or false")
    return value


_Property = Annotated[str | bool | int | float, BeforeValidator(_is_property)]
"""The value of a Spark property. Without the validator, an invalid one is reported once for each type."""


class SparkSettings(SettingsModel):
    """The session: `master` starts one in the run's process, `remote` (`sc://HOST:PORT`) uses a Connect server."""

    use: Literal["auto", "always"] = "auto"
    """`auto`: Spark reconstructs; the driver applies new commits and queries small tables. `always`: Spark replays all
    file actions.
    """
    master: str | None = None
    """Where a run starts its own session: `local[*]`, `spark://host:7077`, `yarn`, `k8s://https://host:6443`."""
    remote: str | None = None
    """The Spark Connect server to use instead: `sc://host:15002`."""
    resource: str | None = None
    """The key of a resource of your project whose session to use instead, with its settings: a `SparkSession`, or a
    resource with a `spark_session`, such as those of dagster-pyspark. Only in a project.
    """
    config: dict[str, _Property] = Field(default_factory=dict, repr=False)
    """Spark properties: `{spark.driver.memory: 2g}`."""

    @field_validator("remote")
    @classmethod
    def _is_connect_url(cls, remote: str | None) -> str | None:
        if remote is not None and not remote.startswith("sc://"):
            raise ValueError("expected a Spark Connect address, sc://HOST:PORT")
        return remote

    @property
    def engine(self) -> EngineUse:
        """The core's engine for `use`."""
        return "spark" if self.use == "always" else "auto"

    @model_validator(mode="after")
    def _one_of_all(self) -> SparkSettings:
        if len(given := [name for name in ("master", "remote", "resource") if getattr(self, name) is not None]) > 1:
            raise ValueError(f"set {' or '.join(given)}, not {'both' if len(given) == 2 else 'all'}")
        if self.resource is not None and self.config:
            raise ValueError("config does not apply to the session of a resource: set the properties there")
        return self


def _with_on_as_true(schema: dict[str, Any]) -> None:
    """Allow the key `true` in a schema: YAML 1.1 reads the key `on` as true."""
    del schema["additionalProperties"]
    schema["propertyNames"] = {"enum": [*schema["properties"], True]}


class AlertSettings(SettingsModel):
    """Messages about new problems of tables, and about their recovery."""

    model_config = ConfigDict(json_schema_extra=_with_on_as_true)

    urls: tuple[SecretStr, ...] = ()
    """The services that get each message, as Apprise URLs; empty: no messages. They are secrets: write
    `urls: ["${ALERT_URL}"]`. Needs the extra `alerts`.
    """
    on: tuple[Literal["error", "warn"], ...] = ("error", "warn")
    """The tables to report: `error`: `broken` tables; `warn`: `warned`, `stale` and `unknown` tables."""
    ui: str = "http://127.0.0.1:3000"
    """The URL of Dagster's UI, for the link in a message."""

    def model_post_init(self, context: Any) -> None:
        super().model_post_init(context)
        for url in self.urls:
            learn_secret(url.get_secret_value())

    @model_validator(mode="before")
    @classmethod
    def _on_is_text(cls, values: Any) -> Any:
        # In a `defs.yaml`, Dagster reads the key `on` as YAML 1.1 does: as true.
        if isinstance(values, dict) and True in values and "on" not in values:
            return {"on" if key is True else key: value for key, value in values.items()}
        return values

    @field_validator("on")
    @classmethod
    def _is_not_empty(cls, on: tuple[str, ...]) -> tuple[str, ...]:
        # `min_length` counts only valid values: an invalid one would be reported twice.
        if not on:
            raise ValueError("must not be empty")
        return on

    @field_validator("urls")
    @classmethod
    def _are_urls(cls, urls: tuple[SecretStr, ...]) -> tuple[SecretStr, ...]:
        if not all(_SERVICE.fullmatch(url.get_secret_value()) for url in urls):
            raise ValueError("expected Apprise URLs, such as slack://... or json://...")
        return urls

    @field_validator("ui")
    @classmethod
    def _is_ui(cls, ui: str) -> str:
        if not _HTTP.fullmatch(ui):
            raise ValueError("expected a URL that starts with https:// or http://")
        return ui.rstrip("/")


class Settings(SettingsModel):
    """All settings of a configuration file. `storage` is a URL or an absolute path."""

    storage: FolderOrUrl = Field(default=str(DEFAULT_STORAGE), min_length=1)
    """The location of the store: a folder or an fsspec URL, neither inside the folder of a table nor containing one."""
    storage_options: StorageOptions = Field(default_factory=dict, repr=False)
    """Options of the store's filesystem, for fsspec."""
    spark: SparkSettings = SparkSettings()
    """The Spark session, see below."""
    alerts: AlertSettings = AlertSettings()
    """Messages about new problems of tables, see below."""
    fleet_asset: str = DEFAULT_FLEET_ASSET
    """The key of the asset that shows all tables. If your project or another code location has an asset `fleet`, choose
    another key, such as `deltasnap/fleet`.
    """
    default_status: Literal["running", "stopped"] = "running"
    """Whether the sensors and schedules run from the start, or wait until somebody starts them in Dagster."""
    catalogs: dict[str, CatalogSettings] = Field(default_factory=dict)
    """Catalogs that know tables by name, see below: `{lake: {type: glue, region: eu-west-1}}`."""
    discover: tuple[DiscoverSettings, ...] = ()
    """Tables to follow by pattern, see below."""
    tables: tuple[TableSettings, ...]
    """The tables to follow, see below; optional with `discover`."""
    _unfollowed: Mapping[str, Problem] = PrivateAttr(default_factory=dict)
    _suffix: str = PrivateAttr(default="")

    @model_validator(mode="before")
    @classmethod
    def _tables_or_discover(cls, values: Any) -> Any:
        if isinstance(values, dict) and values.get("discover") and "tables" not in values:
            return {**values, "tables": ()}
        return values

    @field_validator("fleet_asset")
    @classmethod
    def _asset_key(cls, key: str) -> str:
        return accepted_key(key)

    @field_validator("discover")
    @classmethod
    def _in_catalogs(cls, patterns: tuple[DiscoverSettings, ...], info: ValidationInfo) -> tuple[DiscoverSettings, ...]:
        for pattern in patterns if "catalogs" in info.data else ():
            pattern.in_catalog(info.data["catalogs"])
        return patterns

    @field_validator("tables")
    @classmethod
    def _some(cls, tables: tuple[TableSettings, ...], info: ValidationInfo) -> tuple[TableSettings, ...]:
        if not tables and info.data.get("discover") == ():  # not if `discover` is invalid: that is reported
            raise ValueError("expected at least one table")
        taken = TakenKeys(str(info.data.get("fleet_asset")))
        for table in tables:
            if (found := taken.add(table)) is not None:
                raise ValueError("{}: choose another {}".format(*found))
            if "catalogs" in info.data:
                table.in_catalog(info.data["catalogs"])
        return tables

    @property
    def unfollowed(self) -> Mapping[str, Problem]:
        """The problems of the tables that `discover` found but that are not followed, by path."""
        return self._unfollowed

    def with_tables(self, tables: Iterable[TableSettings], unfollowed: Mapping[str, Problem]) -> Settings:
        """Return these settings with other tables."""
        tables = tuple(tables)
        for table in tables:
            table._suffix = self._suffix
        settings = self.model_copy(update={"tables": tables})
        settings._unfollowed = unfollowed
        return settings

    def with_suffix(self, suffix: str) -> Settings:
        """Return these settings for a project with several stores. The suffix makes the names of this one unique."""
        settings = self.model_copy()
        settings._suffix = suffix
        return settings.with_tables((table.model_copy() for table in self.tables), self.unfollowed)

    def own_name(self, name: str) -> str:
        """Return the name in Dagster of a job, a sensor or a resource that the tables share."""
        return f"{name}{self._suffix}"

    def table(self, name: str) -> TableSettings:
        """Return the table with this name. Errors: `ValueError` that lists the known names."""
        for table in self.tables:
            if table.name == name:
                return table
        raise ValueError(f"No table named {name}. Configured: {', '.join(each.name for each in self.tables)}.")


class TakenKeys:
    """The asset keys that are in use: that of the fleet, and those of some tables."""

    def __init__(self, fleet_asset: str) -> None:
        self._owners = {_identifier(fleet_asset): ""}

    def add(self, table: TableSettings) -> tuple[str, str] | None:
        """Add the keys of a table. Return why they cannot be used, and what to change; None: they can.

        Dagster derives the names of steps from the keys: keys that give the same name count as the same.
        """
        for key in table.keys:
            owner = self._owners.get(_identifier(key))
            if owner == "":
                return f"{key} is among the assets of table {table.name}", "fleet_asset"
            if owner is not None and owner.casefold() != table.name.casefold():
                return f"the tables {owner} and {table.name} both have the asset key {key}", "asset_key"
        if len({*map(_identifier, table.keys)}) < len(table.keys):
            return f"the asset_key of table {table.name} is also the key of another of its assets", "asset_key"
        self._owners |= dict.fromkeys(map(_identifier, table.keys), table.name)
        return None


def _identifier(key: str) -> str:
    return re.sub("[.-]", "_", key.replace("/", "__"))
