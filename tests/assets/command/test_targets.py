"""What an argument of a command names: a table of the configuration or of a catalog, or a path."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import boto3
import pytest
import typer

from deltasnap_assets.command.arguments import table_at
from deltasnap_assets.command.table_on_spark import delta_log_of
from deltasnap_assets.command.targets import targets_of
from deltasnap_assets.command.views.check_view import Gate, check_targets, chosen_checks
from deltasnap_assets.settings.loading import load_settings
from deltasnap_core.errors import CatalogError
from tests.assets.followed_table import write
from tests.builders import metadata, protocol, write_log
from tests.unity_server import TOKEN, UnityServer

ALL = chosen_checks(None)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory, with a table in `clicks` and no configuration."""
    write(tmp_path / "clicks", 0, 1)
    monkeypatch.chdir(tmp_path)
    names = ("DATABRICKS_HOST", "DATABRICKS_TOKEN", "DATABRICKS_CONFIG_PROFILE", "DELTASNAP_CONFIG")
    for name in names:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("DATABRICKS_CONFIG_FILE", str(tmp_path / "databrickscfg"))
    return tmp_path


def configure(folder: Path, unity: UnityServer) -> None:
    catalog = f"{{type: unity, host: '{unity.url}', token: {TOKEN}}}"
    table = "{name: events, table: main.silver.events, storage_options: {anon: true}}"
    (folder / "deltasnap.yaml").write_text(f"catalogs: {{main: {catalog}}}\ntables: [{table}]\n")


def test_names_of_a_configured_catalog_are_tables(folder: Path, unity: UnityServer) -> None:
    configure(folder, unity)
    for name in ("events", "views"):
        unity.add(f"main.silver.{name}", (folder / "clicks").as_uri())
    expected = (folder / "clicks").as_uri()
    assert table_at("events", None) == (expected, {"anon": True})
    assert table_at("main.silver.events", ["key=1"]) == (expected, {"anon": True, "key": "1"})
    assert table_at("main.silver.views", None) == (expected, {})
    (target,) = targets_of(["main.silver.views"], {})
    assert (target.name, target.table is not None and target.table.place) == ("main.silver.views",) * 2


def test_table_of_a_catalog_is_checked_by_its_name(folder: Path, unity: UnityServer) -> None:
    configure(folder, unity)
    unity.add("main.silver.views", (folder / "clicks").as_uri())
    unity.add("main.silver.ice", (folder / "clicks").as_uri(), data_source_format="ICEBERG")
    (table,) = check_targets(targets_of(["main.silver.views"], {}), ALL, {})
    assert (table[0].name, table[1].unreachable) == ("main.silver.views", None)
    (table,) = check_targets(targets_of(["main.silver.ice"], {}), ALL, {})
    assert "it is not a Delta table" in str(table[1].unreachable)


def test_name_that_only_the_catalog_accepts_fails_no_other_table(folder: Path, unity: UnityServer) -> None:
    configure(folder, unity)
    for name in ("events", "my events"):
        unity.add(f"main.silver.{name}", (folder / "clicks").as_uri())
    (target,) = targets_of(["main.silver.*"], {})
    assert "main.silver.my events" in str(target.problem)
    with (folder / "deltasnap.yaml").open("a") as file:
        file.write("discover: [{table: main.silver.*}]\n")
    settings = load_settings(folder=folder)
    assert [table.table for table in settings.tables] == ["main.silver.events"]
    assert list(settings.unfollowed) == ["main.silver.my events"]


def test_other_names_with_dots_are_paths(folder: Path, unity: UnityServer) -> None:
    configure(folder, unity)
    for text in ("lake.silver.events", "clicks.v2", "./main.silver.events", "s3://main.silver.events", "/a.b.c"):
        assert table_at(text, None) == (text, {})


def test_environment_of_the_databricks_cli_names_a_catalog_unless_there_is_such_a_folder(
    folder: Path, unity: UnityServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DATABRICKS_HOST", unity.url)
    monkeypatch.setenv("DATABRICKS_TOKEN", TOKEN)
    unity.add("main.silver.events", (folder / "clicks").as_uri())
    assert table_at("main.silver.events", None) == ((folder / "clicks").as_uri(), {})
    (folder / "main.silver.events").mkdir()
    assert table_at("main.silver.events", None) == ("main.silver.events", {})


def test_unknown_table_of_a_catalog_is_an_error(folder: Path, unity: UnityServer) -> None:
    configure(folder, unity)
    with pytest.raises(CatalogError, match="no such table"):
        table_at("main.silver.gone", None)


def test_catalog_option_names_the_catalog_of_the_environment(
    folder: Path, unity: UnityServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DATABRICKS_HOST", unity.url)
    monkeypatch.setenv("DATABRICKS_TOKEN", TOKEN)
    unity.add("main.silver.events", (folder / "clicks").as_uri())
    (folder / "main.silver.events").mkdir()
    assert table_at("main.silver.events", ["a=b"], "unity") == ((folder / "clicks").as_uri(), {"a": "b"})


def test_catalog_option_names_a_key_whose_tables_have_their_own_names(
    folder: Path, glue_options: dict[str, Any], glue_database: str
) -> None:
    options = "".join(f"{name}: {value}, " for name, value in glue_options.items())
    (folder / "deltasnap.yaml").write_text(
        f"catalogs: {{lake: {{type: glue, options: {{{options}}}}}}}\ntables: [{{name: clicks, path: clicks}}]\n"
    )
    place = {"Location": (folder / "clicks").as_uri()}
    table = {"Name": "events", "Parameters": {"table_type": "DELTA"}, "StorageDescriptor": place}
    boto3.client("glue", **glue_options).create_table(DatabaseName=glue_database, TableInput=table)
    assert table_at(f"{glue_database}.events", None, "lake") == ((folder / "clicks").as_uri(), {})
    assert table_at(f"lake.{glue_database}.events", None) == ((folder / "clicks").as_uri(), {})
    assert [each.name for each in targets_of([f"{glue_database}.*"], {}, "lake")] == [f"{glue_database}.events"]
    assert [each.name for each in targets_of([f"lake.{glue_database}.*"], {})] == [f"lake.{glue_database}.events"]


@pytest.mark.parametrize(
    ("text", "catalog", "problem"),
    [
        ("main.silver.events", "hive", "No catalog named hive. Choose unity, glue."),
        ("./events", "unity", "expected the name of a table"),
        ("main.silver.*", "unity", "expected the name of a table"),
        ("main.silver.events", "unity", "Set DATABRICKS_HOST and DATABRICKS_TOKEN, or the profile DEFAULT"),
    ],
)
def test_wrong_catalog_option_is_one_sentence(text: str, catalog: str, problem: str, folder: Path) -> None:
    with pytest.raises(typer.BadParameter) as error:
        table_at(text, None, catalog)
    assert problem in error.value.message


def test_profile_of_the_databricks_cli_has_host_and_token(
    folder: Path, unity: UnityServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    unity.add("main.silver.events", (folder / "clicks").as_uri())
    work = f"[work]\nhost = {unity.url}/\ntoken = {TOKEN}\n"
    (folder / "databrickscfg").write_text(f"[DEFAULT]\nhost = https://other.example\ntoken = of%another\n{work}")
    monkeypatch.setenv("DATABRICKS_CONFIG_PROFILE", "work")
    assert table_at("main.silver.events", None, "unity")[0] == (folder / "clicks").as_uri()


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("[DEFAULT]\ntoken = secret-1\n[work]\nhost = https://work.example\n", "needs host and token. OAuth is not"),
        ("[other]\ntoken = secret-1\n", "Set DATABRICKS_HOST"),
        ("token = secret-1\n", "it is no configuration file"),
        ("[work]\nhost = ftp://x\ntoken = secret-1\n", "The host of unity is invalid"),
    ],
    ids=["token of another profile", "no such profile", "no sections", "no http"],
)
def test_unusable_profile_is_one_sentence_without_its_token(
    content: str, problem: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "databrickscfg").write_text(content)
    monkeypatch.setenv("DATABRICKS_CONFIG_PROFILE", "work")
    with pytest.raises(typer.BadParameter) as error:
        table_at("main.silver.events", None, "unity")
    assert problem in error.value.message
    assert "secret-1" not in error.value.message


def test_pattern_of_names_matches_tables_of_a_catalog_configured_ones_with_their_settings(
    folder: Path, unity: UnityServer
) -> None:
    configure(folder, unity)
    for name in ("events", "views"):
        unity.add(f"main.silver.{name}", (folder / "clicks").as_uri())
    unity.add("main.silver.ice", (folder / "clicks").as_uri(), data_source_format="ICEBERG")
    found = [each for each in targets_of(["main.silver.*"], {"key": "1"}) if each.table is not None]
    options = [each.table.storage_options for each in found if each.table is not None]
    assert [each.name for each in found] == ["main.silver.events", "main.silver.views"]
    assert options == [{"anon": True, "key": "1"}, {"key": "1"}]


def test_table_at_a_path_has_the_name_of_its_folder(folder: Path) -> None:
    tables = [target.table for target in targets_of(["s3://lake/web/page views/", "./clicks", "/"], {})]
    assert [table and table.name for table in tables] == ["page_views", "clicks", "table"]


def test_pattern_of_configured_names_wins_over_folders(folder: Path) -> None:
    write(folder / "events_2", 0, 0)
    (folder / "deltasnap.yaml").write_text("tables: [{name: events_1, path: clicks}, {name: other, path: clicks}]\n")
    assert [each.name for each in targets_of(["events_*"], {})] == ["events_1"]
    assert [each.name for each in targets_of(["./events_*"], {})] == [str(folder / "events_2")]
    assert [each.name for each in targets_of(["event?_*", "c*"], {})] == ["events_1", str(folder / "clicks")]


@pytest.mark.parametrize("pattern", ["nothing_*", "main.silver.*", "./x*", "lake.silver.x[0-9]"])
def test_pattern_that_matches_nothing_is_a_table_that_is_not_reached(
    pattern: str, folder: Path, unity: UnityServer
) -> None:
    configure(folder, unity)
    tables = check_targets(targets_of([pattern], {}), ALL, {})
    ((_, table),) = tables
    assert (Gate(tables=tables, fails_on_warnings=False).exit_code, table.unreachable) == (
        3,
        f"The pattern {pattern} matches no Delta table. Correct the pattern.",
    )


def test_command_with_a_path_warns_of_an_invalid_session(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    write_log(tmp_path / "events", {0: [protocol(), metadata()]})
    (tmp_path / "deltasnap.yaml").write_text("spark: {remote: nowhere}")
    monkeypatch.chdir(tmp_path)
    delta_log_of("events", {})
    assert "deltasnap.yaml:1: spark.remote: expected a Spark Connect address" in caplog.text
    assert "The default Spark session is used." in caplog.text
