"""The workspace of the Databricks CLI: its environment variables, or a profile of its configuration file."""

from __future__ import annotations

from collections.abc import Mapping
from configparser import Error as ProfileError, RawConfigParser
from pathlib import Path

import typer

from deltasnap_assets.settings.catalogs import UnityCatalogSettings

HOST, TOKEN = "DATABRICKS_HOST", "DATABRICKS_TOKEN"
_PROFILE, _FILE = "DATABRICKS_CONFIG_PROFILE", "DATABRICKS_CONFIG_FILE"


def unity_catalog(environment: Mapping[str, str]) -> UnityCatalogSettings:
    """Return the Unity Catalog of `DATABRICKS_HOST`, or of the profile in use: `DATABRICKS_CONFIG_PROFILE`, or DEFAULT.

    Host and token are from one place, so that no host gets the token of another. Errors: typer.BadParameter.
    """
    if host := environment.get(HOST):
        return _settings(host, environment.get(TOKEN))
    file, name = Path(environment.get(_FILE) or "~/.databrickscfg"), environment.get(_PROFILE) or "DEFAULT"
    profiles = RawConfigParser(default_section="")  # otherwise each profile would inherit the token of DEFAULT
    try:
        is_there = bool(profiles.read(file.expanduser(), encoding="utf-8"))
    except (ProfileError, OSError, RuntimeError, UnicodeDecodeError) as error:
        reason = str(error).splitlines()[0] if not isinstance(error, ProfileError) else "it is no configuration file"
        raise _problem(f"{file} cannot be read: {reason}.") from None  # a parser's error quotes lines with tokens
    if not is_there or not profiles.has_section(name):
        raise _problem(f"The host of unity is not known. Set {HOST} and {TOKEN}, or the profile {name} in {file}.")
    profile = profiles[name]
    if not profile.get("host") or not profile.get("token"):
        raise _problem(f"The profile {name} in {file} needs host and token. OAuth is not supported.")
    return _settings(profile["host"], profile["token"])


def _settings(host: str, token: str | None) -> UnityCatalogSettings:
    try:
        return UnityCatalogSettings.model_validate({"type": "unity", "host": host, "token": token or None})
    except ValueError:
        raise _problem("The host of unity is invalid. Expected https://WORKSPACE.cloud.databricks.com.") from None


def _problem(message: str) -> typer.BadParameter:
    return typer.BadParameter(message, param_hint="--catalog")
