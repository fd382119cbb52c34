"""The attributes of a `defs.yaml`: the keys of `deltasnap.yaml`, with the same error messages and a schema for `dg`.

Dagster resolves the templates in the file later. Their values are checked then.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

import dagster as dg
from dagster.components import AssetAttributesModel, DefsStateConfigArgs
from pydantic import ConfigDict, ValidationError, model_validator
from pydantic_core import ErrorDetails, InitErrorDetails

from deltasnap_assets.component_templates import TEMPLATE
from deltasnap_assets.settings.config import Settings
from deltasnap_assets.settings.loading import message_of
from deltasnap_assets.settings.yaml_source import VARIABLE, ConfigError, ConfigProblem, Location, key_text

OF_DAGSTER = ("translation", "defs_state")  # not in `deltasnap.yaml`


class ComponentAttributes(dg.Model):
    """The attributes that Dagster reads from the file, unchanged. `settings_of` converts them to settings."""

    model_config = ConfigDict(extra="forbid", hide_input_in_errors=True)

    tables: Any = ()
    discover: Any = ()
    storage: Any = None
    storage_options: Any = None
    spark: Any = None
    catalogs: Any = None
    alerts: Any = None
    fleet_asset: Any = None
    default_status: Any = None
    translation: str | AssetAttributesModel | None = None  # type: ignore[valid-type]  # made by a function
    defs_state: DefsStateConfigArgs | None = None

    @model_validator(mode="before")
    @classmethod
    def _is_as_in_deltasnap_yaml(cls, values: Any) -> Any:
        """Raise the errors of the values, each at its key. Dagster adds the line."""
        if problems := list(_problems(values)):
            raise ValidationError.from_exception_data("defs.yaml", problems)
        return values

    @classmethod
    def model_json_schema(cls, *_: Any, **__: Any) -> dict[str, Any]:
        """Return the schema of the keys. It has no `anyOf`, because its error messages do not show what is wrong."""
        schema = _open_to_templates(_without_any_of(Settings.model_json_schema()))
        schema["properties"] |= {name: {"type": ["object", "string"]} for name in OF_DAGSTER}
        return {**schema, "required": []}


def settings_of(values: dict[str, Any], file: str) -> Settings:
    """Return the settings from resolved values.

    Errors: ConfigError for an invalid value from a template, or two tables with the same name.
    """
    try:
        settings = Settings.model_validate(values)
    except ValidationError as error:
        problems = (ConfigProblem(reason=message_of(each), key=key_text(tuple(each["loc"]))) for each in error.errors())
        raise ConfigError(file=file, problems=tuple(problems)) from None  # the cause has the values
    counts = Counter(table.name.casefold() for table in settings.tables)
    if twice := [name for name, count in counts.items() if count > 1]:
        reason = f"several tables have the same name: {', '.join(twice)}"
        raise ConfigError(file=file, problems=(ConfigProblem(reason=reason, key="tables"),))
    return settings


def _problems(values: Any) -> Iterator[InitErrorDetails]:
    if not isinstance(values, dict):
        return
    values = {name: value for name, value in values.items() if name not in OF_DAGSTER}
    for location, name in _shell_variables(values):
        reason = ValueError(f"${{{name}}} is not replaced in this file: write {{{{ env.{name} }}}}")
        yield InitErrorDetails(type="value_error", ctx={"error": reason}, loc=location, input=key_text(location))
    try:
        Settings.model_validate({"tables": (), **values})
    except ValidationError as error:
        for details in error.errors():
            if not _is_left_to_templates(values, details):
                location, reason = _in_file(values, details), ValueError(message_of(details))
                # Dagster recreates the error to add the line. It supports only pydantic's own types, and shows the
                # input.
                yield InitErrorDetails(
                    type="value_error", ctx={"error": reason}, loc=location, input=key_text(location) or "the file"
                )


def _is_left_to_templates(values: Mapping[str, Any], details: ErrorDetails) -> bool:
    if details["type"] in ("extra_forbidden", "missing"):
        return False
    is_whole_list = details["loc"] == ("tables",) and _has_template([values.get("tables"), values.get("discover")])
    return is_whole_list or _has_template(details["input"])


def _has_template(value: Any) -> bool:
    match value:
        case str():
            return TEMPLATE.search(value) is not None
        case dict():
            return any(_has_template(part) for part in value.values())
        case list() | tuple():
            return any(_has_template(part) for part in value)
    return False


def _shell_variables(value: Any, location: Location = ()) -> Iterator[tuple[Location, str]]:
    """Yield each text with a `${NAME}`, which is for `deltasnap.yaml`: its location, and the name."""
    match value:
        case str() if found := VARIABLE.search(value):
            yield location, found[1]
        case dict():
            for key, part in value.items():
                yield from _shell_variables(part, (*location, key))
        case list() | tuple():
            for index, part in enumerate(value):
                yield from _shell_variables(part, (*location, index))


def _in_file(values: Any, details: ErrorDetails) -> Location:
    """Return the location in the file of an invalid value. A branch of a union is not a key of the file."""
    location: Location = ()
    for part in details["loc"]:
        try:
            values = values[part]
        except (LookupError, TypeError):
            return (*location, part) if details["type"] == "missing" else location
        location = (*location, part)
    return location


def _without_any_of(schema: Any) -> Any:
    """Return a schema that selects the branch of an `anyOf` by the type of the value."""
    if isinstance(schema, list):
        return [_without_any_of(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    plain = {key: _without_any_of(value) for key, value in schema.items() if key != "anyOf"}
    match schema.get("anyOf"):
        case [dict() as one, {"type": "null"}] if "type" in one:
            return {**plain, **one, "type": [one["type"], "null"]}
        case [dict() as one, dict() as other] if "type" in one:
            return {**plain, "if": {"type": one["type"]}, "then": one, "else": _without_any_of(other)}
        case [*branches] if all(set(branch) == {"type"} for branch in branches):
            return {**plain, "type": [branch["type"] for branch in branches]}
        case None:
            return plain
    return {**plain, "anyOf": schema["anyOf"]}


def _open_to_templates(schema: Any) -> Any:
    """Return a schema with a template as a valid value of each key and of each part of a list."""
    if isinstance(schema, list):
        return [_open_to_templates(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    opened = {key: _open_to_templates(part) for key, part in schema.items()}
    if "properties" in opened:
        opened["properties"] = {key: _or_template(part) for key, part in opened["properties"].items()}
    for key in ("items", "additionalProperties"):
        if isinstance(opened.get(key), dict):
            opened[key] = _or_template(opened[key])
    return opened


def _or_template(schema: dict[str, Any]) -> dict[str, Any]:
    shown = {key: value for key, value in schema.items() if key in ("title", "description", "default")}
    return {**shown, "if": {"type": "string", "pattern": TEMPLATE.pattern}, "then": {}, "else": schema}
