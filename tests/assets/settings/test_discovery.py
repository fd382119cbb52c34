from __future__ import annotations

from pathlib import Path

import fsspec
import pytest
from fsspec.implementations.local import LocalFileSystem

from deltasnap_assets.settings.config import Settings
from deltasnap_assets.settings.discovery import DiscoveryError
from deltasnap_assets.settings.loading import load_settings, read_settings
from deltasnap_assets.settings.yaml_source import ConfigError
from deltasnap_core import SnapshotStore
from deltasnap_core.support import LastPoll


def lake(folder: Path, *tables: str) -> None:
    for table in tables:
        (folder / "lake" / table / "_delta_log").mkdir(parents=True)
    (folder / "lake" / "bronze" / "no_table").mkdir(parents=True)


def load(folder: Path, text: str) -> Settings:
    (folder / "deltasnap.yaml").write_text(text)
    return load_settings(folder=folder, environment={})


def test_folders_with_a_log_are_tables_with_the_keys_of_their_pattern(tmp_path: Path) -> None:
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


def test_table_listed_in_the_file_is_not_discovered_again(tmp_path: Path) -> None:
    lake(tmp_path, "bronze/clicks", "bronze/views")
    settings = load(tmp_path, "tables: [{name: mine, path: lake/bronze/clicks}]\ndiscover: [{path: lake/bronze/*}]")
    assert [table.name for table in settings.tables] == ["mine", "views"]


@pytest.mark.parametrize("path", ["file://{lake}/bronze/clicks", "{lake}/../lake/bronze//clicks/"])
def test_table_listed_with_another_spelling_is_not_discovered_again(tmp_path: Path, path: str) -> None:
    lake(tmp_path, "bronze/clicks", "bronze/views")
    named = path.format(lake=tmp_path / "lake")
    settings = load(tmp_path, f"tables: [{{name: mine, path: '{named}'}}]\ndiscover: [{{path: lake/bronze/*}}]")
    assert [table.name for table in settings.tables] == ["mine", "views"]


def test_table_created_later_is_found_by_the_next_discovery(tmp_path: Path) -> None:
    text = "discover: [{path: lake/bronze/*}]"
    lake(tmp_path)
    assert load(tmp_path, text).tables == ()
    (tmp_path / "lake/bronze/late/_delta_log").mkdir(parents=True)
    assert [table.name for table in load(tmp_path, text).tables] == ["late"]


def unfollowed(settings: Settings) -> dict[str, str]:
    """Return why tables are not followed, by the end of their path."""
    return {path.partition("/lake/")[2]: each.reason for path, each in settings.unfollowed.items()}


def followed(settings: Settings) -> dict[str, str]:
    return {table.name: table.path.partition("/lake/")[2] for table in settings.tables}


def test_first_of_two_tables_with_one_name_is_followed(tmp_path: Path) -> None:
    lake(tmp_path, "bronze/clicks", "silver/Clicks", "silver/views")
    settings = load(tmp_path, "discover: [{path: lake/*/*}]")
    assert followed(settings) == {"clicks": "bronze/clicks", "views": "silver/views"}
    assert unfollowed(settings) == {"silver/Clicks": f"{tmp_path}/lake/bronze/clicks has the same name, clicks"}


def test_table_in_the_store_keeps_its_name_when_another_one_appears(tmp_path: Path) -> None:
    lake(tmp_path, "silver/clicks")
    text = "discover: [{path: lake/*/*}]"
    polls = SnapshotStore.open(None, load(tmp_path, text).storage).polls
    polls.write("clicks", LastPoll(polled_at_ms=1, path=str(tmp_path / "lake/silver/clicks")))
    (tmp_path / "lake/bronze/clicks/_delta_log").mkdir(parents=True)
    settings = load(tmp_path, text)
    assert followed(settings) == {"clicks": "silver/clicks"}
    assert list(unfollowed(settings)) == ["bronze/clicks"]


def test_tables_are_found_while_the_store_cannot_be_read(tmp_path: Path) -> None:
    lake(tmp_path, "bronze/clicks", "silver/clicks")
    text = "discover: [{path: lake/*/*}]"
    polls = SnapshotStore.open(None, load(tmp_path, text).storage).polls
    polls.write("clicks", LastPoll(polled_at_ms=1, path=str(tmp_path / "lake/silver/clicks")))
    (file,) = tmp_path.rglob("last_poll.json")
    file.write_text("{")
    assert followed(load(tmp_path, text)) == {"clicks": "bronze/clicks"}


def test_name_in_the_file_is_not_given_to_a_discovered_table(tmp_path: Path) -> None:
    lake(tmp_path, "bronze/clicks", "silver/clicks")
    text = "tables: [{name: clicks, path: lake/silver/clicks}]\ndiscover: [{path: lake/bronze/*}]"
    polls = SnapshotStore.open(None, load(tmp_path, text).storage).polls
    polls.write("clicks", LastPoll(polled_at_ms=1, path=str(tmp_path / "lake/bronze/clicks")))
    settings = load(tmp_path, text)
    assert followed(settings) == {"clicks": "silver/clicks"}
    assert list(unfollowed(settings)) == ["bronze/clicks"]


def test_folder_whose_name_dagster_does_not_allow_is_not_followed(tmp_path: Path) -> None:
    lake(tmp_path, "bronze/clicks", "bronze/数据")
    settings = load(tmp_path, "discover: [{path: lake/bronze/*}]")
    assert followed(settings) == {"clicks": "bronze/clicks"}
    assert unfollowed(settings) == {
        "bronze/数据": "its folder gives the name '', and Dagster allows only letters, digits and underscores"
    }


def test_folders_are_in_the_asset_keys_of_found_tables(tmp_path: Path) -> None:
    lake(tmp_path, "bronze/my-events")
    keys = "asset_key: '{parent}/{name}', key_prefix: '{parent}', group: '{parent}', deps: ['raw/{name}'], attach: true"
    settings = load(tmp_path, f"discover: [{{path: lake/bronze/*, table_name: 'main.{{parent}}.{{name}}', {keys}}}]")
    (table,) = settings.tables
    assert (table.key_of("delta_log"), table.key_of("all_files")) == ("bronze/my_events", "bronze/my_events/all_files")
    assert (table.group_name, table.deps, table.attach) == ("bronze", ("raw/my_events",), True)
    assert table.table_name == "main.bronze.my_events"


def test_found_table_with_the_asset_key_of_another_is_not_followed(tmp_path: Path) -> None:
    lake(tmp_path, "bronze/events", "bronze/views")
    settings = load(tmp_path, "discover: [{path: lake/bronze/*, asset_key: lake/x}]")
    assert followed(settings) == {"events": "bronze/events"}
    reason = "the tables events and views both have the asset key lake/x"
    assert unfollowed(settings) == {"bronze/views": reason}


def test_table_whose_assets_would_contain_the_fleet_is_not_followed(tmp_path: Path) -> None:
    lake(tmp_path, "bronze/events", "bronze/views")
    settings = load(tmp_path, "fleet_asset: events/all_files\ndiscover: [{path: lake/bronze/*}]")
    assert followed(settings) == {"views": "bronze/views"}
    assert unfollowed(settings) == {"bronze/events": "events/all_files is among the assets of table events"}


def test_mistake_in_a_pattern_is_reported_with_its_key(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"discover\[0\].exclud: unknown key, did you mean exclude"):
        load(tmp_path, "discover: [{path: lake/*, exclud: [a]}]")


def test_file_needs_tables_or_patterns(tmp_path: Path) -> None:
    (tmp_path / "deltasnap.yaml").write_text("tables: []")
    with pytest.raises(ConfigError, match="at least one table"):
        read_settings(tmp_path / "deltasnap.yaml", {})


def test_unusual_failure_of_a_storage_is_reported(tmp_path: Path) -> None:
    class Unreachable(fsspec.AbstractFileSystem):  # type: ignore[misc]
        protocol = "unreachable"

        def ls(self, *_: object, **__: object) -> list[str]:
            raise RuntimeError("Could not connect to the endpoint")

    fsspec.register_implementation("unreachable", Unreachable, clobber=True)
    with pytest.raises(DiscoveryError, match=r"Tables at unreachable://lake/\*.*: Could not connect to the endpoint"):
        load(tmp_path, "discover: [{path: unreachable://lake/*}]")


def test_pattern_of_an_unknown_scheme_is_named_as_written_with_advice(tmp_path: Path) -> None:
    with pytest.raises(DiscoveryError) as caught:
        load(tmp_path, "discover: [{path: foo://lake/*}]")
    advice = "Correct the scheme of the path or the storage options, or install the package of the filesystem."
    assert str(caught.value) == f"Tables at foo://lake/*: Protocol not known: foo. {advice}"


@pytest.mark.parametrize("pattern", ["lake/bronze/*", "lake/[bs]*/*", "lake"])
def test_pattern_in_a_folder_that_does_not_exist_is_an_error(pattern: str, tmp_path: Path) -> None:
    with pytest.raises(DiscoveryError, match=rf"Tables at .*: the folder {tmp_path}/lake\S* does not exist"):
        load(tmp_path, f'discover: [{{path: "{pattern}"}}]')


@pytest.mark.parametrize("is_known", [True, False])
def test_folder_that_cannot_be_listed_does_not_stop_the_tables_of_others(
    tmp_path: Path, is_known: bool, caplog: pytest.LogCaptureFixture
) -> None:
    lake(tmp_path, "bronze/events", "silver/orders")
    text = "discover: [{path: lake/bronze/*, poll_seconds: 60}, {path: lake/silver/*, exclude: [tmp_*]}]"
    found = load(tmp_path, text)
    polls = SnapshotStore.open(None, found.storage).polls
    for name in ("orders", "tmp_a") if is_known else ():
        polls.write(name, LastPoll(polled_at_ms=1, path=str(tmp_path / "lake/silver" / name)))
    polls.write("unknown", LastPoll(polled_at_ms=1))  # a table whose path is not recorded
    polls.write("elsewhere", LastPoll(polled_at_ms=1, path=str(tmp_path / "gold/elsewhere")))
    (tmp_path / "lake/silver").rename(tmp_path / "moved")
    if is_known:
        assert load(tmp_path, text).tables == found.tables
        assert "silver does not exist" in caplog.text
        assert "The tables that it matched earlier are still followed." in caplog.text
    else:
        with pytest.raises(DiscoveryError, match="silver does not exist"):
            load(tmp_path, text)


def test_folder_without_list_permission_is_an_error(tmp_path: Path) -> None:
    class Forbidden(fsspec.AbstractFileSystem):  # type: ignore[misc]
        protocol = "forbidden"

        def ls(self, *_: object, **__: object) -> list[str]:
            raise PermissionError("Access Denied")

    fsspec.register_implementation("forbidden", Forbidden, clobber=True)
    with pytest.raises(DiscoveryError, match=r"Tables at forbidden://lake/\*.*: Access Denied"):
        load(tmp_path, "discover: [{path: forbidden://lake/*}]")


def test_table_created_later_is_found_on_a_storage_with_cached_listings(tmp_path: Path) -> None:
    class Caching(LocalFileSystem):  # type: ignore[misc]
        """Returns its first listing of a folder until its cache is invalidated, as s3fs does."""

        protocol = "caching"

        @classmethod
        def _strip_protocol(cls, path: str) -> str:  # that of older releases knows only `file`
            return str(super()._strip_protocol(path.removeprefix("caching://")))

        def ls(self, path: str, detail: bool = False, **_: object) -> list[object]:
            if (path, detail) not in self.dircache:
                self.dircache[path, detail] = super().ls(path, detail)
            return self.dircache[path, detail]

        def invalidate_cache(self, path: str | None = None) -> None:
            self.dircache.clear()

        def __init__(self, **options: object) -> None:
            super().__init__(**options)
            self.dircache = dict[tuple[str, bool], list[object]]()

    fsspec.register_implementation("caching", Caching, clobber=True)
    lake(tmp_path, "bronze/clicks")
    text = f"discover: [{{path: caching://{tmp_path}/lake/bronze/*}}]"
    folder = f"caching://{tmp_path}/lake/bronze"
    assert [table.path for table in load(tmp_path, text).tables] == [f"{folder}/clicks"]
    (tmp_path / "lake/bronze/late/_delta_log").mkdir(parents=True)
    assert [table.path for table in load(tmp_path, text).tables] == [f"{folder}/clicks", f"{folder}/late"]


@pytest.mark.parametrize(
    ("pattern", "advice"),
    [("lake/gold/*", "The pattern {0}/lake/gold/* matches no table."), ("lake", "use {0}/lake/*.")],
    ids=["empty folder", "no wildcard"],
)
def test_pattern_without_a_table_is_a_warning(
    pattern: str, advice: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    lake(tmp_path, "bronze/clicks")
    (tmp_path / "lake" / "gold").mkdir()
    settings = load(tmp_path, f'discover: [{{path: "{pattern}"}}, {{path: lake/bronze/*}}]')
    assert [table.name for table in settings.tables] == ["clicks"]
    (record,) = caplog.records
    assert record.levelname == "WARNING"
    assert record.getMessage().endswith(advice.format(tmp_path))


def test_pattern_whose_tables_are_in_the_file_is_no_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    lake(tmp_path, "bronze/clicks")
    load(tmp_path, "tables: [{name: mine, path: lake/bronze/clicks}]\ndiscover: [{path: lake/bronze/*}]")
    assert caplog.records == []


@pytest.mark.parametrize(
    ("patterns", "seconds", "warns_of"),
    [(["*", "hot_*"], 30, ["hot_*"]), (["hot_*", "*"], 5, []), (["*", "*"], 30, ["*"])],
    ids=["general first", "special first", "twice"],
)
def test_pattern_that_matches_only_tables_of_earlier_patterns_is_a_warning(
    patterns: list[str], seconds: int, warns_of: list[str], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    lake(tmp_path, "bronze/clicks", "bronze/hot_views")
    keys = {"*": "", "hot_*": ", poll_seconds: 5"}
    lines = [f"  - {{path: {tmp_path}/lake/bronze/{each}{keys[each]}}}\n" for each in patterns]
    polled = {table.name: table.poll_seconds for table in load(tmp_path, "discover:\n" + "".join(lines)).tables}
    assert polled == {"clicks": 30, "hot_views": seconds}
    advice = "matches only tables that earlier patterns match."
    expected = [f"The pattern {tmp_path}/lake/bronze/{each} {advice}" for each in warns_of]
    assert [record.getMessage().partition(" The keys")[0] for record in caplog.records] == expected
