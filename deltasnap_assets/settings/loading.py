"""Reading `deltasnap.yaml`: errors name the file, line, key and value. Loads no PySpark."""

from __future__ import annotations

import difflib
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from deltasnap_assets.checks.check_settings import CheckOptions, CheckSettings
from deltasnap_assets.checks.registry import CHECKS
from deltasnap_assets.settings.catalogs import CATALOG_TYPES
from deltasnap_assets.settings.config import DEFAULT_STORAGE, AlertSettings, Settings, SparkSettings
from deltasnap_assets.settings.discovery import with_discovered
from deltasnap_assets.settings.store_place import check_store_place
from deltasnap_assets.settings.table_settings import CheckpointSettings, DiscoverSettings, TableSettings
from deltasnap_assets.settings.yaml_source import ConfigError, ConfigProblem, Location, YamlSource, key_text, read_yaml
from deltasnap_core import DeltaSnapError
from deltasnap_core.support import is_url, logger_of, redacted

_log = logger_of(__name__)

CONFIG_VARIABLE = "DELTASNAP_CONFIG"
CONFIG_FILE = "deltasnap.yaml"
DEMO_FOLDER = Path(".deltasnap") / "demo"
DEMO_TABLE = "events"
_Model = TypeVar("_Model", bound=BaseModel)
_PLAIN_REASONS = {  # for types of pydantic's errors that would name types of Python
    "dict_type": "expected a mapping",
    "model_type": "expected a mapping",
    "model_attributes_type": "expected a mapping",
    "tuple_type": "expected a list",
    "union_tag_invalid": f"expected a catalog with the type {' or '.join(CATALOG_TYPES)}",
    "union_tag_not_found": f"expected a catalog with the type {' or '.join(CATALOG_TYPES)}",
}
_REPLACED: Mapping[Location, str] = {
    ("alerts", "webhook"): "use `urls`, a list of Apprise URLs",
}
_CHECK_NAMES = tuple(check.name for check in CHECKS)
_SECRETIVE = ("storage_options", "config", "alerts", "catalogs")  # these hold credentials: never shown


class NoConfigError(DeltaSnapError):
    """There is no configuration file in `folder` or above it, and none is named."""

    def __init__(self, *, folder: Path) -> None:
        self.folder = folder
        super().__init__(
            f"There is no `{CONFIG_FILE}` in {folder} or above it, and `{CONFIG_VARIABLE}` is not set. Name the file "
            "with `deltasnap --config FILE` or that variable. `deltasnap init PATH...` generates a configuration "
            "for your tables, `deltasnap demo` creates a demo table."
        )


def load_settings(
    file: str | os.PathLike[str] | None = None,
    *,
    environment: Mapping[str, str] = os.environ,
    folder: Path | None = None,
    on_no_table: Callable[[str], None] = _log.warning,
) -> Settings:
    """Return the settings of `file`, else of `DELTASNAP_CONFIG`, else of `deltasnap.yaml`.

    `deltasnap.yaml` is looked up in `folder`, by default the working directory, then above it. Relative paths in a file
    are relative to the file.
    on_no_table: called with a message for each pattern of `discover` that cannot be listed, matches no table, or only
    tables of earlier patterns.
    Errors: `NoConfigError`; `ConfigError`; `DiscoveryError`, see `with_discovered`; DeltaSnapError for a store
    inside a table.
    """
    folder = Path.cwd() if folder is None else folder
    path = find_config(environment, folder) if file is None else Path(file)
    if path is None:
        raise NoConfigError(folder=folder)
    settings = read_settings(path, environment)
    settings = with_discovered(settings, on_no_table) if settings.discover else settings
    check_store_place(settings)
    return settings


def load_spark_settings(environment: Mapping[str, str] = os.environ, folder: Path | None = None) -> SparkSettings:
    """Return the key `spark` of the configuration file in use; the default without a file.

    Reads no other key and lists no table. Errors: `ConfigError`.
    """
    path = find_config(environment, Path.cwd() if folder is None else folder)
    if path is None:
        return SparkSettings()
    source = read_yaml(path, environment, only="spark")
    return _checked(_SparkKey, source, {} if source.values is None else source.values).spark


class _SparkKey(BaseModel):
    spark: SparkSettings = SparkSettings()


def find_config(environment: Mapping[str, str], folder: Path) -> Path | None:
    """Return the configuration file in use: the named one, else the nearest from a folder upward; None: there is none.

    Errors: `ConfigError` if the variable names the home folder of an unknown user.
    """
    if named := environment.get(CONFIG_VARIABLE):
        try:
            return folder / Path(named).expanduser()
        except RuntimeError as error:
            problem = ConfigProblem(reason=f"cannot be read, the value of {CONFIG_VARIABLE}: {error}")
            raise ConfigError(file=named, problems=(problem,)) from error
    return nearest_config(folder)


def nearest_config(folder: Path) -> Path | None:
    """Return `deltasnap.yaml` in a folder or in the nearest folder above it; None: there is none."""
    files = (each / CONFIG_FILE for each in (folder, *folder.absolute().parents))
    return next((file for file in files if file.exists()), None)


def demo_settings(folder: Path) -> Settings:
    """Return the settings of the demo: its table, polled every few seconds."""
    table = TableSettings(name=DEMO_TABLE, path=str(folder / DEMO_FOLDER / DEMO_TABLE), poll_seconds=10)
    return Settings(storage=str(folder / DEFAULT_STORAGE), tables=(table,))


def read_settings(path: Path, environment: Mapping[str, str] = os.environ) -> Settings:
    """Read and check one configuration file. Errors: `ConfigError`, with all errors found."""
    source = read_yaml(path, environment)
    settings = _checked(Settings, source, source.values)
    for index, table in enumerate(settings.tables):
        table._defined_at = (str(path.absolute()), source.line_of(("tables", index)) or 1)
    if twice := tuple(_names_given_twice(source, settings)):
        raise ConfigError(file=source.file, problems=twice)
    return with_absolute_paths(settings, path.absolute().parent)


def _checked(model: type[_Model], source: YamlSource, values: Any) -> _Model:
    """Return the values of a file as a model. Errors: `ConfigError`, with all errors found."""
    if not isinstance(values, dict):
        raise ConfigError(file=source.file, problems=(ConfigProblem(reason="expected keys such as tables: ..."),))
    try:
        return model.model_validate(values)
    except ValidationError as error:
        problems = sorted((_problem(source, details) for details in error.errors()), key=lambda each: each.line or 0)
        raise ConfigError(file=source.file, problems=tuple(problems)) from None  # the cause has the values


def _names_given_twice(source: YamlSource, settings: Settings) -> list[ConfigProblem]:
    problems = []
    first: dict[str, int] = {}
    for index, table in enumerate(settings.tables):
        location: Location = ("tables", index, "name")
        # Names become folders of the store. Some filesystems do not distinguish upper and lower case.
        earlier = first.setdefault(table.name.casefold(), index)
        if earlier != index:
            reason = f"also the name of another table, {key_text(('tables', earlier, 'name'))}"
            problems.append(
                ConfigProblem(
                    reason=reason, line=source.line_of(location), key=key_text(location), value=repr(table.name)
                )
            )
    return problems


def with_absolute_paths(settings: Settings, folder: Path, *, storage_folder: Path | None = None) -> Settings:
    """Return the settings with relative paths resolved against a folder.

    storage_folder: the folder for `storage`; None: the same one.
    """
    tables = tuple(_with_absolute_path(table, folder) for table in settings.tables)
    discover = tuple(_with_absolute_path(each, folder) for each in settings.discover)
    storage = _absolute(settings.storage, storage_folder or folder)
    return settings.model_copy(update={"storage": storage, "tables": tables, "discover": discover})


_Followed = TypeVar("_Followed", TableSettings, DiscoverSettings)


def _with_absolute_path(each: _Followed, folder: Path) -> _Followed:
    return each.model_copy(update={"path": _absolute(each.path, folder)}) if each.path else each


def _absolute(path: str, folder: Path) -> str:
    if is_url(path):
        return path
    name = os.fsdecode(path.encode())  # another text only in a locale without UTF-8
    return str(folder / Path(name).expanduser())


def message_of(details: Any) -> str:
    """Return the message for an invalid value. details: one of the errors of pydantic's ValidationError."""
    if details["type"] == "extra_forbidden" and tuple(details["loc"]) in _REPLACED:
        return _REPLACED[tuple(details["loc"])]
    if details["type"] == "extra_forbidden":
        return f"unknown key{_nearest(tuple(details['loc']))}"
    if details["type"] == "missing":
        return "missing"
    if (expected := _PLAIN_REASONS.get(details["type"])) is not None:
        return expected
    if details["type"] == "string_too_short" and details["ctx"]["min_length"] == 1:
        return "must not be empty"
    reason: str = details["msg"].removeprefix("Value error, ")
    if not reason.startswith("Input should be "):
        return reason
    return reason.partition(", unable to parse")[0].replace("Input should be ", "expected ", 1)


def _problem(source: YamlSource, details: Any) -> ConfigProblem:
    location: Location = tuple(details["loc"])
    if location[0] == "catalogs":
        location = (*location[:2], *location[3:])  # without the type, which is no key of the file
    while location and location not in source.lines and details["type"] != "missing":
        location = location[:-1]  # a branch of a union is not a key of the file
    hidden = any(part in _SECRETIVE for part in location)
    value = source.texts.get(location)
    return ConfigProblem(
        reason=message_of(details),
        line=source.line_of(location),
        key=key_text(location) or None,
        value=None if value is None or hidden else repr(redacted(value)),
    )


def _nearest(location: Location) -> str:
    parents = tuple(part for part in location[:-1] if isinstance(part, str))
    if parents[:1] == ("catalogs",):
        parents = ("catalogs", *parents[2:])
    known_at: dict[Location, type[BaseModel]] = {
        (): Settings,
        ("spark",): SparkSettings,
        ("alerts",): AlertSettings,
        **{("catalogs", kind): model for kind, model in CATALOG_TYPES.items()},
        ("tables",): TableSettings,
        ("tables", "checkpoint"): CheckpointSettings,
        ("tables", "checks"): CheckSettings,
        **{(place, "checks", name): CheckOptions for place in ("tables", "discover") for name in _CHECK_NAMES},
        ("discover",): DiscoverSettings,
        ("discover", "checkpoint"): CheckpointSettings,
        ("discover", "checks"): CheckSettings,
    }
    if parents not in known_at:
        return ""
    known = list(known_at[parents].model_fields)
    near = difflib.get_close_matches(str(location[-1]), known, n=1)
    return f", did you mean {near[0]}?" if near else f", expected one of {', '.join(known)}"
