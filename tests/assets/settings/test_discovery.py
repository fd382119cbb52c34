from __future__ import annotations

from pathlib import Path

import fsspec
import pytest

from deltasnap_assets.settings.config import Settings
from deltasnap_assets.settings.discovery import DiscoveryError
from deltasnap_assets.settings.loading import load_settings, read_settings
from deltasnap_assets.settings.yaml_source import ConfigError


def lake(folder: Path, *tables: str) -> None:
    for table in tables:
        (folder / "lake" / table / "_delta_log").mkdir(parents=True)
    (folder / "lake" / "bronze" / "no_table").mkdir(parents=True)


def load(folder: Path, text: str) -> Settings:
    (folder / "deltasnap.yaml").write_text(text)
    return load_settings(folder=folder, environment={})


def test_folders_with_a_log_are_tables_with_what_their_pattern_says(tmp_path: Path) -> None:
    lake(tmp_path, "bronze/clicks", "bronze/page views", "bronze/tmp_1", "silver/clicks", "silver/old")
    settings = load(
        tmp_path,
        """
discover:
  - {path: lake/*/*, exclude: ["tmp_*", old], name: "{parent}_{name}", poll_seconds: 5, checks: {max_growth_factor: 3}}
""",
    )
    assert {table.name: table.path for table in settings.tables} == {
        "bronze_clicks": str(tmp_path / "lake/bronze/clicks"),
        "bronze_page_views": str(tmp_path / "lake/bronze/page views"),
        "silver_clicks": str(tmp_path / "lake/silver/clicks"),
    }
    assert {(table.poll_seconds, table.checks.max_growth_factor) for table in settings.tables} == {(5, 3)}


def test_table_that_the_file_names_is_not_found_once_more(tmp_path: Path) -> None:
    lake(tmp_path, "bronze/clicks", "bronze/views")
    settings = load(tmp_path, "tables: [{name: mine, path: lake/bronze/clicks}]\ndiscover: [{path: lake/bronze/*}]")
    assert [table.name for table in settings.tables] == ["mine", "views"]


def test_table_that_comes_later_is_found_by_the_next_look(tmp_path: Path) -> None:
    text = "discover: [{path: lake/bronze/*}]"
    lake(tmp_path)
    assert load(tmp_path, text).tables == ()
    (tmp_path / "lake/bronze/late/_delta_log").mkdir(parents=True)
    assert [table.name for table in load(tmp_path, text).tables] == ["late"]


def test_two_tables_of_one_name_are_told(tmp_path: Path) -> None:
    lake(tmp_path, "bronze/clicks", "silver/Clicks")
    with pytest.raises(DiscoveryError, match="would both be named"):
        load(tmp_path, "discover: [{path: lake/*/*}]")


def test_name_that_cannot_be_made_is_told(tmp_path: Path) -> None:
    lake(tmp_path, "bronze/clicks")
    with pytest.raises(DiscoveryError, match=r"cannot be named '\{nam\}'"):
        load(tmp_path, 'discover: [{path: lake/*/*, name: "{nam}"}]')


def test_mistake_in_a_pattern_is_told_with_its_key(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"discover\[0\].exclud: unknown key, did you mean exclude"):
        load(tmp_path, "discover: [{path: lake/*, exclud: [a]}]")


def test_file_needs_tables_or_patterns(tmp_path: Path) -> None:
    (tmp_path / "deltasnap.yaml").write_text("tables: []")
    with pytest.raises(ConfigError, match="at least one table"):
        read_settings(tmp_path / "deltasnap.yaml", {})


def test_storage_that_fails_as_no_filesystem_does_is_told(tmp_path: Path) -> None:
    class Unreachable(fsspec.AbstractFileSystem):  # type: ignore[misc]
        protocol = "unreachable"

        def glob(self, *_: object, **__: object) -> list[str]:
            raise RuntimeError("Could not connect to the endpoint")

    fsspec.register_implementation("unreachable", Unreachable, clobber=True)
    with pytest.raises(DiscoveryError, match=r"Tables at unreachable://lake/\*.*: Could not connect to the endpoint"):
        load(tmp_path, "discover: [{path: unreachable://lake/*}]")
