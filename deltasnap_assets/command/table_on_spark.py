"""A table for a command, with the configured Spark session. The session starts when a query needs it."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console

from deltasnap_assets.command.targets import named
from deltasnap_assets.command.terminal import output_aside
from deltasnap_assets.settings.config import Settings, SparkSettings
from deltasnap_assets.settings.discovery import with_discovered
from deltasnap_assets.settings.loading import find_config, load_settings, load_spark_settings, read_settings
from deltasnap_assets.settings.located import needs_session, use_session
from deltasnap_assets.settings.yaml_source import ConfigError
from deltasnap_assets.spark.session.failures import using_spark
from deltasnap_assets.spark.session.run_session import RunSession
from deltasnap_assets.spark.session_config import session_config
from deltasnap_core import DeltaLog, SnapshotOptions, SnapshotStore
from deltasnap_core.support import KnownVersions, logger_of

_log = logger_of(__name__)


def sessions_of(spark: SparkSettings) -> RunSession:
    """Return the configured session of a command. It starts when it is needed."""
    return RunSession(session_config(spark), _log.info)


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A table of the command line: its name or path, and the catalog, as given; and where the table is."""

    text: str
    catalog: str | None
    path: str
    options: Mapping[str, Any]


def delta_log_of(path: str, storage_options: Mapping[str, Any]) -> DeltaLog:
    """Return the log of a table. Its queries raise JavaError if they need Spark and it cannot start."""
    spark = configured_spark()
    return DeltaLog.for_table(
        sessions_of(spark), path, storage_options=storage_options, options=SnapshotOptions(engine=spark.engine)
    )


def settings_with_session() -> Settings:
    """Return the configuration. The session starts to find tables that are in its catalog, also by pattern.

    Errors: as `load_settings`, and JavaError.
    """
    messages = list[str]()
    settings = load_settings(on_no_table=messages.append)
    use_session([*settings.tables, *settings.discover], sessions_of(settings.spark))
    if any(needs_session(pattern) for pattern in settings.discover):
        return with_discovered(settings)
    for message in messages:
        _log.warning(message)
    return settings


@contextmanager
def spark_aside(path: str) -> Iterator[Console]:
    """Keep the output of Spark off the terminal, and convert its failures to one line that names the table.

    Yields the real stderr.
    """
    with using_spark(path), output_aside() as err:
        yield err


def versions_of(place: Place) -> KnownVersions:
    """Return the versions of a table: those of its log, and of a configured one also those that only the store has.

    Errors: as `SnapshotStore.known_versions`.
    """
    log, table = delta_log_of(place.path, place.options), named(place.text, place.catalog)
    file = None if table is None else find_config(os.environ, Path.cwd())
    if table is None or file is None:
        return log.known_versions()
    settings = read_settings(file)
    sessions, engine = sessions_of(settings.spark), settings.spark.engine
    store = SnapshotStore.open(sessions, settings.storage, settings.storage_options, engine=engine)
    return store.known_versions(table.name, log)


def configured_spark() -> SparkSettings:
    """Return the configured session. If it is invalid, warn and return the default."""
    try:
        return load_spark_settings()
    except ConfigError as error:
        _log.warning("%s. The default Spark session is used.", "; ".join(error.lines))
        return SparkSettings()
