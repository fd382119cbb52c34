"""The components of a project that have one store.

They share its resources, its jobs and the page of its tables, which the first of them defines. In a project with
several stores, the names of these get a suffix, the folder of the file, except for those of the first component.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from deltasnap_assets.component_file import settings_of
from deltasnap_assets.settings.config import DEFAULT_FLEET_ASSET, Settings
from deltasnap_assets.settings.discovery import FoundTables, key_of_place
from deltasnap_assets.settings.yaml_source import ConfigError, ConfigProblem

_SHARED = ("catalogs", "storage_options", "spark", "alerts", "fleet_asset", "default_status")


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """A component. file: its `defs.yaml`. settings: of the file, before `discover`, with absolute paths."""

    file: Path
    settings: Settings


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """The components with one store, seen from one of them.

    members: in the order of the project. own: the index of the component. settings: those of all members together.
    own_suffix: of the names that the component does not share.
    """

    members: Sequence[Member]
    own: int
    settings: Settings
    own_suffix: str

    @classmethod
    def of(cls, project: Sequence[Member], own: int) -> Group:
        """Return the group of a component of a project. own: its index. Errors: ConfigError."""
        suffixes, storage = _suffixes(project), project[own].settings.storage
        indices = [index for index, each in enumerate(project) if each.settings.storage == storage]
        members = [project[index] for index in indices]
        settings = _together(members)
        if (suffix := suffixes[indices[0]]) and settings.fleet_asset == DEFAULT_FLEET_ASSET:
            settings = settings.model_copy(update={"fleet_asset": f"{DEFAULT_FLEET_ASSET}{suffix}"})
        return cls(
            members=members,
            own=indices.index(own),
            settings=settings.with_suffix(suffix),
            own_suffix=suffixes[own],
        )

    def own_part(self, complete: Settings, found: FoundTables) -> Settings:
        """Return the settings with the tables of the component alone.

        complete: with all tables of the group. found: the discovered ones among them.
        """
        own = self.members[self.own].settings
        first = sum(len(member.settings.discover) for member in self.members[: self.own])
        patterns = range(first, first + len(own.discover))
        urls = {key_of_place(path) for path, index in found.items() if index in patterns}
        names = {table.name for table in own.tables}
        tables = [table for table in complete.tables if table.name in names or key_of_place(table.place) in urls]
        return complete.with_tables(tables, complete.unfollowed)


def _suffixes(project: Sequence[Member]) -> list[str]:
    """Return a suffix for each component, all different: none for the first one, else the name of its folder."""
    found = list[str]()
    for member in project:
        name = re.sub(r"\W+", "_", member.file.parent.name, flags=re.ASCII)
        choices = (f"_{name}" if number == 1 else f"_{name}_{number}" for number in range(1, len(project) + 1))
        found.append(next(each for each in choices if each not in found) if found else "")
    return found


def _together(members: Sequence[Member]) -> Settings:
    """Return the settings of several files. Errors: ConfigError if they differ in what they share."""
    first = members[0]
    values = {name: getattr(first.settings, name) for name in type(first.settings).model_fields}
    values |= {key: [each for m in members for each in getattr(m.settings, key)] for key in ("tables", "discover")}
    for key in _SHARED:
        default = type(first.settings).model_fields[key].get_default(call_default_factory=True)
        given = [member for member in members if getattr(member.settings, key) != default]
        for member in given:
            if getattr(member.settings, key) != getattr(given[0].settings, key):
                reason = f"the component in {given[0].file} has the same storage, and another value: give it once"
                raise ConfigError(file=str(member.file), problems=(ConfigProblem(reason=reason, key=key),))
        values[key] = getattr((given or members)[0].settings, key)
    return settings_of(values, str(first.file)) if len(members) > 1 else first.settings
