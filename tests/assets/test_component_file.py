"""The messages of `dg` and Dagster for a mistake in a `defs.yaml`."""

from __future__ import annotations

import re
import traceback
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
import yaml
from dagster.components.testing import create_defs_folder_sandbox
from pydantic import ValidationError

from deltasnap_assets import component
from deltasnap_assets.component import DeltaTableSnapshots, _ExampleTable
from deltasnap_assets.component_file import ComponentAttributes, _without_any_of, settings_of
from deltasnap_assets.settings.config import DEFAULT_STORAGE, Settings
from deltasnap_assets.settings.table_settings import Since
from deltasnap_assets.settings.yaml_source import ConfigError

PASSWORD = "hunter2"


def test_new_component_has_an_example_table_that_loads(tmp_path: Path) -> None:
    kind = "deltasnap_assets.DeltaTableSnapshots"
    _ExampleTable().scaffold(
        dg.ScaffoldRequest(
            type_name=kind, target_path=tmp_path, scaffold_format="yaml", project_root=tmp_path, params=None
        )
    )
    written = yaml.safe_load((tmp_path / "defs.yaml").read_text(encoding="utf-8"))
    assert written == {"type": kind, "attributes": {"tables": [{"name": "events", "path": "s3://lake/events"}]}}
    (table,) = settings_of(written["attributes"], str(tmp_path / "defs.yaml")).tables
    assert table.path == "s3://lake/events"


TABLE = {"name": "events", "path": "events"}
MISTAKES: dict[str, tuple[dict[str, Any], tuple[str | int, ...], str]] = {
    "key": ({"storag": "s", "tables": [TABLE]}, ("storag",), "unknown key, did you mean storage?"),
    "key of a table": (
        {"tables": [TABLE, {**TABLE, "pol_seconds": "{{ env.X }}"}]},
        ("tables", 1, "pol_seconds"),
        "unknown key, did you mean poll_seconds?",
    ),
    "union": ({"tables": [{**TABLE, "versions": "soon"}]}, ("tables", 0, "versions"), "expected all, latest or"),
    "number": ({"tables": [{**TABLE, "poll_seconds": "often"}]}, ("tables", 0, "poll_seconds"), "valid integer"),
    "option of a check": (
        {"tables": [{**TABLE, "checks": {"small_files": {"enable": False}}}]},
        ("tables", 0, "checks", "small_files", "enable"),
        "unknown key, did you mean enabled?",
    ),
    "asset key": (
        {"tables": [{**TABLE, "asset_key": "lake/x"}, {"name": "b", "path": "b", "asset_key": "lake/x"}]},
        ("tables",),
        "the tables events and b both have the asset key lake/x: choose another asset_key",
    ),
    "missing": ({"tables": [{"name": "events"}]}, ("tables", 0, "path"), "missing"),
    "spark": ({"tables": [TABLE], "spark": {"remot": "x"}}, ("spark", "remot"), "did you mean remote?"),
    "variable of deltasnap.yaml": (
        {"tables": [{**TABLE, "path": "${LAKE}/x"}]},
        ("tables", 0, "path"),
        "${LAKE} is not replaced in this file: write {{ env.LAKE }}",
    ),
    "nothing": ({"storage": "s"}, (), "expected at least one table"),
}


@pytest.mark.parametrize("case", MISTAKES)
def test_mistake_is_reported_at_its_key_without_its_value(case: str) -> None:
    values, location, reason = MISTAKES[case]
    with pytest.raises(ValidationError) as raised:
        ComponentAttributes.model_validate(values)
    (problem,) = raised.value.errors()
    assert problem["loc"] == location
    assert reason in problem["msg"]
    assert "often" not in f"{problem}{raised.value}"  # a value may be a secret


TEMPLATES: dict[str, dict[str, Any]] = {
    "a part": {"tables": [{**TABLE, "path": "s3://{{ env.STAGE }}/events", "poll_seconds": "{{ env.SECONDS }}"}]},
    "asset key": {"tables": [{**TABLE, "asset_key": "{{ env.STAGE }}/events", "deps": ["raw/{{ env.STAGE }}"]}]},
    "in a list": {"tables": [{**TABLE, "owners": ["{{ env.OWNER }}"]}]},
    "all tables": {"tables": "{{ tables() }}"},
    "discover": {"discover": "{{ places() }}"},
}


@pytest.mark.parametrize("case", TEMPLATES)
def test_template_is_left_to_dagster(case: str) -> None:
    assert ComponentAttributes.model_validate(TEMPLATES[case])


def test_value_of_a_template_is_validated_after_resolution() -> None:
    with pytest.raises(ConfigError, match=r"defs.yaml: tables\[0\].poll_seconds: expected a valid integer"):
        settings_of({"tables": [{**TABLE, "poll_seconds": "often"}]}, "defs.yaml")
    with pytest.raises(ConfigError, match="several tables have the same name: events"):
        settings_of({"tables": [TABLE, {**TABLE, "name": "Events"}]}, "defs.yaml")


def test_traceback_of_a_mistake_shows_no_secret() -> None:
    with pytest.raises(ConfigError) as raised:
        settings_of({"tables": [TABLE], "alerts": {"urls": [PASSWORD]}}, "defs.yaml")
    assert PASSWORD not in "".join(traceback.format_exception(raised.value))


def has_any_of(schema: object) -> bool:
    if isinstance(schema, dict):
        return "anyOf" in schema or any(has_any_of(part) for part in schema.values())
    return isinstance(schema, list) and any(has_any_of(part) for part in schema)


def test_schema_has_no_ambiguous_alternatives() -> None:
    schema = ComponentAttributes.model_json_schema()
    assert not has_any_of(schema)
    assert set(schema["properties"]) == set(ComponentAttributes.model_fields)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('tables: [{name: events, path: e, poll_seconds: "{{ env.S | int }}", versions: "{{ env.V }}"}]', ""),
        ('tables: ["{{ table }}", {name: events, path: e, checks: {fresh_within_hours: "{{ env.H }}"}}]', ""),
        ('spark: "{{ spark }}"\nalerts: {on: [error, "{% if x %}warn{% endif %}"]}', ""),
        ("alerts: {on: [error], url: x}", "'url' is not one of"),
        ("tables: [{name: events, path: e, poll_seconds: often}]", "'often' is not of type 'integer'"),
    ],
)
def test_dg_check_accepts_what_dagster_loads(text: str, expected: str) -> None:
    validator = pytest.importorskip("jsonschema").Draft202012Validator
    attributes = yaml.safe_load(text)  # reads `on` as true, as dg does
    problems = [error.message for error in validator(ComponentAttributes.model_json_schema()).iter_errors(attributes)]
    if expected:
        assert expected in "".join(problems)
    else:
        assert problems == []
        assert ComponentAttributes.model_validate({"tables": [TABLE], **attributes})


@pytest.mark.parametrize("storage", [None, "store", "s3://lake/store"])
def test_relative_storage_is_in_the_project_but_not_in_its_source_folder(storage: str | None) -> None:
    values = {"tables": [TABLE]} | ({} if storage is None else {"storage": storage})
    with create_defs_folder_sandbox() as project:
        folder = project.scaffold_component(DeltaTableSnapshots, defs_yaml_contents=file_of(values))
        with project.build_all_defs() as defs:
            expected = storage if storage and "://" in storage else project.project_root / (storage or DEFAULT_STORAGE)
    assert defs.resources is not None
    assert defs.resources["snapshots"].description.endswith(f"store at {expected}.")
    log = defs.resolve_asset_graph().get(dg.AssetKey(["events", "delta_log"]))
    assert log.metadata["dagster/uri"] == str(folder / "events")


def built(*attributes: dict[str, Any]) -> dg.Definitions:
    """Return the definitions of a project with one file for each of the attributes."""
    with create_defs_folder_sandbox() as project:
        for values in attributes:
            project.scaffold_component(DeltaTableSnapshots, defs_yaml_contents=file_of(values))
        with project.build_all_defs() as defs:
            return defs


def file_of(attributes: dict[str, Any]) -> dict[str, Any]:
    return {"type": "deltasnap_assets.DeltaTableSnapshots", "attributes": attributes}


def error_of(*attributes: dict[str, Any]) -> str:
    """Return what Dagster prints: the error that it raises, with its causes."""
    with pytest.raises(Exception, match="Error while") as raised:
        built(*attributes)
    return "".join(traceback.format_exception(raised.value))


@pytest.mark.parametrize("text", ["{{ env.UNSET_NAME }}", "{{ env.UNSET_NAME }}/x", "{{ env('UNSET_NAME') }}/x"])
def test_unset_variable_is_reported_with_its_line(text: str) -> None:
    reported = error_of({"tables": [{**TABLE, "path": text}]})
    assert "The environment variable UNSET_NAME is not set" in reported
    assert re.search(r"defs\.yaml:\d+ - attributes\.tables\.0\.path", reported)


@pytest.mark.slow
@pytest.mark.parametrize(
    "text", ["{{ env.SET_NAME }}/x", "{{ env('UNSET', 'lake') }}/x", "{{ env.UNSET or 'lake' }}/x"]
)
def test_set_variable_or_default_is_resolved(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SET_NAME", "lake")
    graph = built({"tables": [{**TABLE, "path": text}]}).resolve_asset_graph()
    assert graph.get(dg.AssetKey(["events", "delta_log"])).metadata["dagster/uri"].endswith("/lake/x")


def settings_from(attributes: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> Settings:
    """Return the settings of a file with these attributes."""
    found = list[Settings]()

    def noted(*values: Any) -> Settings:
        found.append(settings_of(*values))
        return found[0]

    monkeypatch.setattr(component, "settings_of", noted)
    built(attributes)
    return found[0]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("12345", "12345"),
        ("{{ env.DIGITS }}", "12345"),
        ("{{ env.DIGITS }}_{{ env.DIGITS }}", "12345_12345"),
        ("'quoted'", "'quoted'"),
        ("{{ env('UNSET_NAME', '1e9') }}", "1e9"),
        ("{{ env.DIGITS | int }}", 12345),
        ("{{ env.FLAG }}", True),
    ],
)
def test_text_like_a_literal_of_python_stays_one(
    text: str, expected: str | int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DIGITS", "12345")
    monkeypatch.setenv("FLAG", "True")
    attributes = {"tables": [{**TABLE, "storage_options": {"auto_mkdir": text}, "tags": {"cost": "1234"}}]}
    (table,) = settings_from(attributes, monkeypatch).tables
    (value,) = table.storage_options.values()
    assert (value, type(value)) == (expected, type(expected))
    assert table.tags == {"cost": "1234"}


@pytest.mark.slow
def test_table_of_a_file_can_be_attached_to_an_asset_of_the_project() -> None:
    keys = {"asset_key": "silver/events", "attach": True, "key_prefix": "deltasnap", "group": "silver"}
    graph = built({"tables": [{**TABLE, **keys, "checks": {"fresh_table": {"enabled": False}}}]}).resolve_asset_graph()
    segment = graph.get(dg.AssetKey(["deltasnap", "events", "log_segment"]))
    assert (segment.group_name, segment.parent_keys) == ("silver", {dg.AssetKey(["silver", "events"])})
    names = {key.name for key in graph.get(dg.AssetKey(["silver", "events"])).check_keys}
    assert names == {"contiguous_log", "readable_checkpoint", "readable_protocol", "cleanup_orphans"}


@pytest.mark.slow
def test_number_of_a_key_may_be_an_environment_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NUMBER", "7")
    number = "{{ env.NUMBER }}"
    attributes = {"tables": [{**TABLE, "poll_seconds": number, "versions": {"since": number}}]}
    (table,) = settings_from(attributes, monkeypatch).tables
    assert (table.poll_seconds, table.versions) == (7, Since(since=7))


def test_branch_of_a_schema_is_selected_by_the_type_of_the_value() -> None:
    text, number, null = {"type": "string"}, {"type": "number", "minimum": 0}, {"type": "null"}
    reference = {"$ref": "#/x"}
    assert _without_any_of({"title": "t", "anyOf": [number, null]}) == {
        "title": "t",
        "type": ["number", "null"],
        "minimum": 0,
    }
    assert _without_any_of({"anyOf": [number, {"anyOf": [text, null]}]}) == {
        "if": {"type": "number"},
        "then": number,
        "else": {"type": ["string", "null"]},
    }
    assert _without_any_of({"anyOf": [text, {"type": "number"}, null]}) == {"type": ["string", "number", "null"]}
    assert _without_any_of({"items": [{"anyOf": [text, null]}], "type": "array"}) == {
        "items": [{"type": ["string", "null"]}],
        "type": "array",
    }
    assert _without_any_of({"anyOf": [reference, null]}) == {"anyOf": [reference, null]}
