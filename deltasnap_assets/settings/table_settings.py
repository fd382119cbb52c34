"""The settings of one table, and of tables that a pattern matches.

Does not load PySpark, and loads Dagster only to check a cron expression, so that the command line reports errors fast.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self
from zlib import crc32

from pydantic import (
    AfterValidator,
    BeforeValidator,
    ConfigDict,
    Field,
    PrivateAttr,
    ValidationInfo,
    field_validator,
    model_validator,
)
from pydantic_core import PydanticCustomError

from deltasnap_assets.checks.check_settings import CheckSettings
from deltasnap_assets.settings.catalogs import CatalogSettings, is_table_name
from deltasnap_assets.settings.option_values import with_booleans
from deltasnap_assets.settings.settings_model import SettingsModel

TABLE_TAG = "deltasnap/table"  # on every run of a table: `dagster.yaml` can limit them to one at a time

TABLE_ASSET = "delta_log"
"""The name of the asset that is the table itself."""
ASSET_NAMES = ("log_segment", "reconstructed_state", "computed_state", "all_files", "tombstones")
"""The names of the five assets with a partition per version."""

_NAME = re.compile(r"[A-Za-z0-9_]+", re.ASCII)
_ASSET_KEY = re.compile(r"[A-Za-z0-9_.-]+(/[A-Za-z0-9_.-]+)*", re.ASCII)
_OWNER = re.compile(r"team:[A-Za-z0-9_.-]+|[A-Za-z0-9_][A-Za-z0-9._%+-]*@[A-Za-z0-9.-]+\.[A-Za-z]{2,7}")
_TAG = re.compile(r"[A-Za-z0-9_.-]{0,63}", re.ASCII)
_TAG_KEY = re.compile(r"([A-Za-z0-9_.-]{1,63}/)?[A-Za-z0-9_.-]{1,63}", re.ASCII)
_HOURLY = "H * * * *"
_SPREAD_MINUTE = re.compile(r"\s*H(?=\s)")


def _home_is_known(path: str) -> str:
    try:
        Path(path).expanduser()
    except RuntimeError as error:
        raise ValueError(f"there is no user {path.partition('/')[0].removeprefix('~')} on this machine") from error
    return path


FolderOrUrl = Annotated[str, AfterValidator(_home_is_known)]
StorageOptions = Annotated[dict[str, Any], AfterValidator(with_booleans)]


def _number_of_variable(value: object) -> object:
    """Return the number in the value of an environment variable, which is text."""
    return int(value) if isinstance(value, str) and value.isascii() and value.isdecimal() else value


class Since(SettingsModel):
    """Versions from `since` on."""

    since: Annotated[int, BeforeValidator(_number_of_variable)] = Field(ge=0, strict=True)
    """The first version to store."""


def _versions(value: object) -> object:
    if isinstance(value, dict) and set(value) == {"since"}:
        return Since(**value)
    if isinstance(value, Since) or value in ("all", "latest"):
        return value
    raise ValueError("expected all, latest or {since: VERSION}")


class CheckpointSettings(SettingsModel):
    """When a run writes a checkpoint into the log of a table. By default, deltasnap never writes to a table."""

    after_commits: int | None = Field(default=None, ge=1)
    """After a refresh, write a checkpoint if this many commits follow the newest one; `null`: never."""


def accepted_key(key: str) -> str:
    """Return an asset key. Errors: ValueError."""
    if not _ASSET_KEY.fullmatch(key):
        raise ValueError("expected an asset key: letters, digits, _, - and ., its parts separated by /")
    return key


def _example(text: str) -> str:
    return _resolved(text, "a", "a")


class _FollowedSettings(SettingsModel):
    """How to follow a table: the keys shared by tables and discovered tables."""

    # Without `anyOf`, whose errors do not name the key.
    model_config = ConfigDict(
        json_schema_extra={"if": {"not": {"required": ["table"]}}, "then": {"required": ["path"]}}
    )
    has_placeholders: ClassVar[bool] = False
    """Whether `{name}` and `{parent}` stand for folders in its texts."""

    table: str | None = None
    """Instead of `path`: the name of the table in one of the `catalogs`, `main.silver.events`."""
    catalog: str | None = None
    """The key in `catalogs` of the catalog that has `table`; `null`: the first part of the name is the key."""
    path: FolderOrUrl = Field(default=None, min_length=0, validate_default=True)
    """The folder or URL of the table (`s3://lake/events`). Set this key, or else `table`."""
    storage_options: StorageOptions = Field(default_factory=dict, repr=False)
    """Options of the table's filesystem, for fsspec: `{key: "${AWS_ACCESS_KEY_ID}"}`. They replace those that a catalog
    gives.
    """
    versions: Annotated[Literal["all", "latest"] | Since, BeforeValidator(_versions)] = "all"
    """Which versions to store: `all`; `latest` and later ones; `{since: 100}`: version 100 and later ones."""
    poll_seconds: int = Field(default=30, ge=1, le=86_400)
    """How often the sensor polls for new commits, in seconds. Dagster's daemon starts ticks every 5 s, so other values
    are rounded down to a multiple of 5, but not below 5. The maximum is 86400, a day: a table whose log was not read
    for a day is `unknown`.
    """
    refresh: str | None = _HOURLY
    """When to materialize versions that the sensor missed or whose run failed: a cron expression, in UTC; `null`:
    never. The minute `H` is derived from the name of the table, so that many tables do not start together.
    """
    materialize_as: Literal["view", "table"] = "view"
    """`table` also stores each version's file lists as plain Parquet, for readers without deltasnap."""
    max_versions_per_run: int = Field(default=100, ge=1)
    """The maximum number of versions in one run. A larger backlog is split into several runs."""
    checks: CheckSettings = CheckSettings()
    """The limits of the asset checks, and options by the name of a check, see below."""
    checkpoint: CheckpointSettings = CheckpointSettings()
    """When to write checkpoints into the table's log, see below. Default: never."""
    description: str | None = None
    """Shown on the page of the table."""
    owners: tuple[str, ...] = ()
    """E-mail addresses, or `team:NAME`, shown with each asset of the table."""
    tags: dict[str, str] = Field(default_factory=dict)
    """Dagster tags of each asset of the table."""
    asset_key: str | None = None
    """The key of the asset that is the table itself, such as `silver/events`; `null`: `NAME/delta_log`."""
    attach: bool = False
    """Whether your project defines the asset `asset_key`, for example as a dbt model. deltasnap then adds checks and
    observations to it, and does not define it.
    """
    key_prefix: str | None = None
    """A prefix of the keys of the other five assets: with `deltasnap`, they are `deltasnap/NAME/log_segment` and so on.
    """
    group: str | None = None
    """The asset group of the table; `null`: its name."""
    deps: tuple[str, ...] = ()
    """The keys of the assets upstream of the table. With `attach`, your own definition has them."""
    table_name: str | None = None
    """The name of the table in a catalog, `main.silver.events`: the metadata `dagster/table_name` of the table's asset;
    `null`: `table`, or else its name here. With `attach`, your own definition has it.
    """
    trigger_on: Literal["data", "commit"] = "data"
    """What gives the table's asset a new data version, which starts `AutomationCondition.eager()` downstream: commits
    that change `data`, or any `commit`, also OPTIMIZE and VACUUM. An error together with `attach`: Dagster then
    compares no data versions.
    """

    @field_validator("asset_key", "key_prefix", "deps")
    @classmethod
    def _are_keys(cls, value: str | tuple[str, ...] | None) -> str | tuple[str, ...] | None:
        for key in (value,) if isinstance(value, str) else value or ():
            accepted_key(_example(key) if cls.has_placeholders else key)
        return value

    @field_validator("group")
    @classmethod
    def _is_group(cls, group: str | None) -> str | None:
        if group is not None:
            _accepted_name(_example(group) if cls.has_placeholders else group)
        return group

    _catalog: CatalogSettings | None = PrivateAttr(default=None)

    @property
    def place(self) -> str:
        """What identifies the table outside of the project: its name in a catalog, or its path; or the pattern."""
        return self.table or self.path

    @property
    def catalog_settings(self) -> CatalogSettings | None:
        """The catalog that knows where the table is; None: `path` says it."""
        return self._catalog

    @property
    def name_in_catalog(self) -> str:
        """The name in the catalog itself, or the pattern."""
        name = self.table or ""
        return name if self._catalog is None or self.catalog is not None else self._catalog.own_name(name)

    def in_catalog(self, catalogs: Mapping[str, CatalogSettings]) -> None:
        """Choose the catalog of `table`, unless it is known. Errors: ValueError if none has its key."""
        if self.table is None or self._catalog is not None:
            return
        key = self.catalog or self.table.partition(".")[0]
        if key not in catalogs:
            known = f"it has {', '.join(catalogs)}" if catalogs else "there is none"
            raise ValueError(f"{self.table} is in the catalog {key}, which `catalogs` does not have: {known}")
        self._catalog = catalogs[key]

    @field_validator("table")
    @classmethod
    def _is_table(cls, table: str | None) -> str | None:
        example = "main.bronze.*" if cls.has_placeholders else "main.silver.events"
        if table is not None and not is_table_name(table, is_pattern=cls.has_placeholders):
            raise ValueError(f"expected the name of a table in a catalog, such as {example}")
        return table

    @field_validator("path", mode="before")
    @classmethod
    def _is_path_unless_table(cls, path: object, info: ValidationInfo) -> object:
        if path == "":
            raise ValueError("must not be empty")
        if path is None and info.data.get("table", "") is None:  # an invalid table is reported
            raise PydanticCustomError("missing", "missing")
        if path is not None and (info.data.get("table") or info.data.get("catalog")):
            raise ValueError("set path, or table and catalog, not both")
        return "" if path is None else path

    @model_validator(mode="after")
    def _triggers_by_observations(self) -> Self:
        if self.attach and "trigger_on" in self.model_fields_set:
            raise ValueError(
                "trigger_on has no effect with attach: Dagster counts the materializations of your asset, not its data "
                "versions"
            )
        return self

    @field_validator("owners")
    @classmethod
    def _are_owners(cls, owners: tuple[str, ...]) -> tuple[str, ...]:
        if strangers := [owner for owner in owners if not _OWNER.fullmatch(owner)]:
            raise ValueError(
                "Dagster accepts e-mail addresses that end with a dot and 2 to 7 letters, and team:NAME; not allowed: "
                + ", ".join(strangers)
            )
        return owners

    @field_validator("tags")
    @classmethod
    def _are_tags(cls, tags: dict[str, str]) -> dict[str, str]:
        if strange := [key for key, value in tags.items() if not (_TAG_KEY.fullmatch(key) and _TAG.fullmatch(value))]:
            raise ValueError(
                f"Dagster tags have up to 63 letters, digits, _, - and .; not allowed: {', '.join(strange)}"
            )
        return tags

    @field_validator("refresh")
    @classmethod
    def _is_cron(cls, refresh: str | None) -> str | None:
        if refresh not in (None, _HOURLY):
            _check_cron(_with_minute(refresh, 0))
        return refresh


class TableSettings(_FollowedSettings):
    """One tracked table, at a `path` (a URL or an absolute path), or with the name `table` in a catalog."""

    name: str
    """Letters, digits and `_`: part of its asset keys, its asset group by default, and its folder in the store."""
    _defined_at: tuple[str, int] | None = PrivateAttr(default=None)
    _suffix: str = PrivateAttr(default="")

    def own_name(self, name: str) -> str:
        """Return the name in Dagster of something that the tables of a store share: see `Settings.own_name`."""
        return f"{name}{self._suffix}"

    @property
    def refresh_cron(self) -> str | None:
        """The cron expression of `refresh`, with the minute of this table; None: never."""
        return None if self.refresh is None else _with_minute(self.refresh, crc32(self.name.encode()) % 60)

    @property
    def defined_at(self) -> tuple[str, int] | None:
        """The configuration file that defines this table, and the line; None: no file."""
        return self._defined_at

    @property
    def group_name(self) -> str:
        """The asset group of the table."""
        return self.group or self.name

    def key_of(self, asset: str) -> str:
        """Return the key of an asset of the table: TABLE_ASSET, or one of ASSET_NAMES. Its parts are separated by /."""
        if asset == TABLE_ASSET and self.asset_key is not None:
            return self.asset_key
        prefix = f"{self.key_prefix}/" if self.key_prefix and asset != TABLE_ASSET else ""
        return f"{prefix}{self.name}/{asset}"

    @property
    def keys(self) -> tuple[str, ...]:
        """The keys of all assets of the table, the table itself first."""
        return tuple(map(self.key_of, (TABLE_ASSET, *ASSET_NAMES)))

    def data_version(self, latest: int, data_change: int) -> int:
        """Return the data version of the table's asset. data_change: the last version that changes data."""
        return data_change if self.trigger_on == "data" else latest

    def why_none_wanted(self, latest: int | None) -> str | None:
        """Return why no version up to the latest one is to be stored; None: some are. latest: None: unknown."""
        if latest is None or not isinstance(self.versions, Since) or self.versions.since <= latest:
            return None
        return f"The latest version of {self.name} is {latest}, but `versions` starts at version {self.versions.since}."

    @field_validator("name")
    @classmethod
    def _dagster_accepts(cls, name: str) -> str:
        return _accepted_name(name)


def _accepted_name(name: str) -> str:
    if not is_dagster_name(name):
        raise ValueError("Dagster allows only letters, digits and underscores")
    return name


class DiscoverSettings(_FollowedSettings):
    """Tables that match a pattern. They are listed when the definitions load. Other keys apply to all of them."""

    table: str | None = None
    """Instead of `path`: a pattern of names in one of the `catalogs`, `main.bronze.*`."""
    path: FolderOrUrl = Field(default=None, min_length=0, validate_default=True)
    """A pattern (`*`, `?`, `[...]`), such as `s3://lake/bronze/*`: each matching folder with a log is a table. If
    several patterns match it, the first one counts.
    """
    exclude: tuple[str, ...] = ()
    """Patterns of folder names to skip."""
    name: str = "{name}"
    """The name of each table: `{name}` is its folder, `{parent}` the folder above. `asset_key`, `key_prefix`, `group`,
    `deps` and `table_name` may contain them too.
    """
    has_placeholders: ClassVar[bool] = True

    @field_validator("name")
    @classmethod
    def _names_tables(cls, name: str) -> str:
        example = _example(name)
        if {"{", "}"}.intersection(example):
            raise ValueError("only {name} and {parent} are resolved")
        _accepted_name(example)
        return name

    def resolved(self, key: str, folder: str, parent: str) -> Any:
        """Return the value of a key for the table in a folder. folder, parent: letters, digits and `_`."""
        value = getattr(self, key)
        if key not in _WITH_PLACEHOLDERS or value is None:
            return value
        found = [_resolved(text, folder, parent) for text in ((value,) if isinstance(value, str) else value)]
        return found[0] if isinstance(value, str) else tuple(found)


_WITH_PLACEHOLDERS = ("name", "asset_key", "key_prefix", "group", "deps", "table_name")


def _resolved(text: str, folder: str, parent: str) -> str:
    return text.replace("{name}", folder).replace("{parent}", parent)


def is_dagster_name(name: str) -> bool:
    """Return whether a table can have this name."""
    return _NAME.fullmatch(name) is not None


def default_asset(table_name: str) -> str | None:
    """Return the key of a table's asset without its settings; None: no asset can have this name."""
    return f"{table_name}/{TABLE_ASSET}" if is_dagster_name(table_name) else None


def _with_minute(cron: str, minute: int) -> str:
    """Return a cron expression with this minute in place of `H`, as in Jenkins."""
    return _SPREAD_MINUTE.sub(str(minute), cron, count=1) if _SPREAD_MINUTE.match(cron) else cron


def _check_cron(text: str) -> None:
    """Raise ValueError unless Dagster accepts the text as a cron schedule."""
    import dagster as dg  # noqa: PLC0415  # slow to load, and most configurations do not set a schedule

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # warnings about steps larger than their field
        try:
            dg.ScheduleDefinition(name="refresh", job_name="refresh", cron_schedule=text)
        except dg.DagsterInvalidDefinitionError as error:
            raise ValueError("not a cron expression for Dagster: expected five fields, as in 0 * * * *") from error
