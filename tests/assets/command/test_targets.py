"""What an argument of a command names: a table of the configuration or of a catalog, or a path."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from deltasnap_assets.command.arguments import table_at
from deltasnap_assets.command.targets import targets_of
from deltasnap_assets.command.views.check_view import GateRequest, check_targets, chosen_checks
from deltasnap_core.errors import CatalogError
from tests.assets.followed_table import write
from tests.unity_server import TOKEN, UnityServer

ALL: dict[str, Any] = {"checks": chosen_checks(None), "limits": {}, "fails_on_warnings": False}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory, with a table in `clicks` and no configuration."""
    write(tmp_path / "clicks", 0, 1)
    monkeypatch.chdir(tmp_path)
    for name in ("DATABRICKS_HOST", "DATABRICKS_TOKEN", "DELTASNAP_CONFIG"):
        monkeypatch.delenv(name, raising=False)
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
    (target,) = targets_of("main.silver.views", {})
    assert (target.name, target.table is not None and target.table.place) == ("main.silver.views",) * 2


def test_table_of_a_catalog_is_checked_by_its_name(folder: Path, unity: UnityServer) -> None:
    configure(folder, unity)
    unity.add("main.silver.views", (folder / "clicks").as_uri())
    unity.add("main.silver.ice", (folder / "clicks").as_uri(), data_source_format="ICEBERG")
    (table,) = check_targets(["main.silver.views"], {}, GateRequest(**ALL)).tables
    assert (table[0].name, table[1].unreachable) == ("main.silver.views", None)
    (table,) = check_targets(["main.silver.ice"], {}, GateRequest(**ALL)).tables
    assert "it is not a Delta table" in str(table[1].unreachable)


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
