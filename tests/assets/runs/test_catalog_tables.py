"""Tables that are configured by their name in a catalog: Glue of moto's server, and a server of Unity Catalog's API."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import boto3
import dagster as dg
import fsspec
import pytest

from deltasnap_assets.definitions import build_definitions
from deltasnap_assets.runs.fleet import fleet_of
from deltasnap_assets.runs.observe import Asked
from deltasnap_assets.runs.planning.names import table_key
from deltasnap_assets.runs.polls import polled
from deltasnap_assets.runs.refresh import refresh_table
from deltasnap_assets.runs.stores import store_of
from deltasnap_assets.settings.config import Settings
from deltasnap_assets.settings.discovery import with_discovered
from deltasnap_core import DeltaSnapError, SnapshotStore
from deltasnap_core.support import LastPoll, system_clock
from tests.assets.followed_table import forget_looks, health, write
from tests.builders import add, content, metadata, protocol
from tests.managed_table import managed, publish, ratify
from tests.unity_server import TOKEN, UnityServer

pytestmark = pytest.mark.slow
DOWN = "http://127.0.0.1:9"


class Project:
    """A table of Glue, `lake.DATABASE.clicks`, and one at a path, followed with one store and instance."""

    def __init__(self, folder: Path, options: dict[str, Any], database: str) -> None:
        self.folder, self.options, self.database = folder, options, database
        self.instance = dg.DagsterInstance.ephemeral()
        self.client = boto3.client("glue", **options)

    def settings(self, *, discover: bool = False, endpoint: str | None = None) -> Settings:
        """Return the settings as a new process reads them. endpoint: of Glue; None: moto's."""
        options = self.options if endpoint is None else {**self.options, "endpoint_url": endpoint}
        events = {"name": "events", "table": f"lake.{self.database}.clicks"}
        others = {"name": "others", "path": str(self.folder / "others")}
        bronze = {"table": f"lake.{self.database}.*", "name": "{name}_of_lake", "exclude": ["tmp_*"]}
        return Settings.model_validate(
            {
                "storage": str(self.folder / "store"),
                "catalogs": {"lake": {"type": "glue", "options": options}},
                "tables": [others] if discover else [events, others],
                "discover": [bronze] if discover else [],
            }
        )

    def register(self, folder: str, name: str = "clicks", **parameters: str) -> None:
        place = {"Location": (self.folder / folder).as_uri()}
        table = {"Name": name, "Parameters": parameters or {"table_type": "DELTA"}, "StorageDescriptor": place}
        self.client.create_table(DatabaseName=self.database, TableInput=table)

    def drop(self) -> None:
        self.client.delete_table(DatabaseName=self.database, Name="clicks")

    def refresh(self, settings: Settings, name: str = "events") -> tuple[int, ...]:
        table = settings.table(name)
        return refresh_table(build_definitions(settings), settings, table, self.instance, log_level="ERROR")

    def tick(self, settings: Settings) -> dict[str, str]:
        """Poll all tables, and return the messages of errors by name."""
        cursors = dict.fromkeys(table.name for table in settings.tables)
        _, problems = polled(settings, settings.tables, self.instance, Asked.TICK, cursors)
        return {name: str(error) for name, error in problems.items()}

    def row(self, settings: Settings) -> dict[str, Any]:
        return next(row for row in fleet_of(settings) if row["table"] == "events")

    @property
    def poll(self) -> LastPoll:
        poll = store_of(self.settings()).polls.read("events")
        assert poll is not None
        return poll


@pytest.fixture
def project(tmp_path: Path, glue_options: dict[str, Any], glue_database: str) -> Project:
    """A project with two tables of three versions."""
    for folder in ("clicks", "others"):
        write(tmp_path / folder, 0, 2)
    return Project(tmp_path, glue_options, glue_database)


def test_table_is_followed_by_its_name(project: Project) -> None:
    project.register("clicks")
    settings = project.settings()
    assert project.refresh(settings) == (0, 1, 2)
    write(project.folder / "clicks", 3, 3)
    assert project.refresh(settings) == (3,)
    assert project.row(settings)["condition"] != "broken"
    assert project.poll.path == f"lake.{project.database}.clicks"
    last = project.instance.fetch_observations(table_key(settings.table("events")), limit=1).records[0]
    assert last.asset_observation is not None
    assert last.asset_observation.metadata["dagster/uri"].value == (project.folder / "clicks").as_uri()
    spec = next(
        spec
        for spec in build_definitions(settings).resolve_all_asset_specs()
        if spec.key == table_key(settings.table("events"))
    )
    assert spec.metadata["dagster/table_name"] == f"lake.{project.database}.clicks"


def test_catalog_that_is_down_breaks_its_tables_after_their_last_good_numbers_and_no_other(project: Project) -> None:
    project.register("clicks")
    project.refresh(project.settings())
    down = project.settings(endpoint=DOWN)
    assert project.tick(down).keys() == {"events"}
    row = project.row(down)
    assert (row["condition"], row["latest_version"]) == ("broken", 2)
    assert row["reason"].startswith(f"catalog: lake.{project.database}.clicks: Glue cannot be reached")
    assert "Glue cannot be reached" in health(project.instance)
    assert project.refresh(down, "others") == (0, 1, 2)
    with pytest.raises(DeltaSnapError, match="Glue cannot be reached"):
        project.refresh(down)
    forget_looks()
    assert project.tick(project.settings()) == {}
    assert project.row(down)["condition"] != "broken"


def test_table_of_another_format_is_broken_with_one_sentence(project: Project) -> None:
    project.register("clicks", table_type="ICEBERG")
    settings = project.settings()
    assert project.tick(settings).keys() == {"events"}
    reason = f"catalog: lake.{project.database}.clicks: it is not a Delta table, but a table of the format iceberg."
    assert project.row(settings)["reason"] == reason


def test_table_that_is_created_again_elsewhere_is_a_new_generation(project: Project) -> None:
    project.register("clicks")
    project.refresh(project.settings())
    project.drop()
    write(project.folder / "again", 0, 1, table_id="another-id")
    project.register("again")
    settings = project.settings()
    assert project.refresh(settings) == (0, 1)
    assert SnapshotStore.open(None, settings.storage).versions("events") == [0, 1]


def test_table_that_was_configured_by_its_path_continues_by_its_name(project: Project) -> None:
    by_path = Settings.model_validate(
        {
            "storage": str(project.folder / "store"),
            "tables": [{"name": "events", "path": str(project.folder / "clicks")}],
        }
    )
    assert project.refresh(by_path) == (0, 1, 2)
    project.register("clicks")
    write(project.folder / "clicks", 3, 3)
    assert project.refresh(project.settings()) == (3,)


def test_pattern_finds_the_tables_of_a_catalog(project: Project) -> None:
    for name in ("clicks", "tmp_clicks"):
        project.register("clicks", name)
    project.register("others", "views", table_type="ICEBERG")
    settings = with_discovered(project.settings(discover=True))
    assert [(table.name, table.place) for table in settings.tables[1:]] == [
        ("clicks_of_lake", f"lake.{project.database}.clicks")
    ]
    assert project.refresh(settings, "clicks_of_lake") == (0, 1, 2)


def test_tables_that_a_pattern_found_earlier_stay_while_the_catalog_is_down(project: Project) -> None:
    project.register("clicks")
    project.refresh(with_discovered(project.settings(discover=True)), "clicks_of_lake")
    messages = list[str]()
    down = with_discovered(project.settings(discover=True, endpoint=DOWN), messages.append)
    assert [table.name for table in down.tables] == ["others", "clicks_of_lake"]
    assert "The tables that it matched earlier are still followed." in messages[0]
    assert project.tick(down).keys() == {"clicks_of_lake"}


def test_table_that_a_pattern_no_longer_finds_is_lost(project: Project) -> None:
    project.register("clicks")
    project.refresh(with_discovered(project.settings(discover=True)), "clicks_of_lake")
    project.drop()
    settings = with_discovered(project.settings(discover=True), lambda _: None)
    assert [row["condition"] for row in fleet_of(settings) if row["table"] == "clicks_of_lake"] == ["warned"]


def unity_settings(folder: Path, unity: UnityServer) -> Settings:
    return Settings.model_validate(
        {
            "storage": str(folder / "store"),
            "catalogs": {"main": {"type": "unity", "host": unity.url, "token": TOKEN}},
            "tables": [{"name": "events", "table": "main.silver.events"}],
        }
    )


def test_ticks_and_a_refresh_look_a_table_up_once(project: Project, unity: UnityServer) -> None:
    unity.add("main.silver.events", (project.folder / "clicks").as_uri())
    settings = unity_settings(project.folder, unity)
    for _ in range(3):
        assert project.tick(settings) == {}
    assert project.refresh(settings) == (0, 1, 2)
    assert [request for request in unity.requests if "tables" in request] == [
        "GET /api/2.1/unity-catalog/tables/main.silver.events"
    ]


def test_credentials_of_unity_are_used_by_ticks_and_runs_and_shown_nowhere(
    project: Project, unity: UnityServer, s3_options: dict[str, Any]
) -> None:
    log = [protocol(), metadata(), add("a.parquet")]
    with fsspec.open("s3://lake/vended/_delta_log/00000000000000000000.json", "wb", **s3_options) as file:
        file.write(content(log))
    aws = {"access_key_id": "vended-key", "secret_access_key": "vended-secret", "session_token": "vended-session"}
    unity.add("main.silver.events", "s3://lake/vended")
    unity.credentials, unity.expires_ms = {"aws_temp_credentials": aws}, system_clock() + 3_600_000
    settings = unity_settings(project.folder, unity)
    (table,) = settings.tables
    own = table.model_copy(update={"storage_options": {"client_kwargs": s3_options["client_kwargs"]}})
    settings = settings.with_tables([own], {})
    assert project.tick(settings) == {}
    assert project.refresh(settings) == (0,)
    assert sum("credentials" in request for request in unity.requests) == 1
    events = "".join(str(record) for record in project.instance.all_logs(project.instance.get_runs()[0].run_id))
    stored = "".join(file.read_text("utf-8", "replace") for file in project.folder.rglob("*") if file.is_file())
    assert not any(secret in f"{events}{stored}{settings!r}" for secret in (*aws.values(), TOKEN))


def test_managed_table_is_followed_with_the_commits_that_its_catalog_ratified(
    project: Project, unity: UnityServer
) -> None:
    folder = project.folder / "managed"
    managed(unity, folder)
    ratify(folder, unity, 2, 3)
    settings = unity_settings(project.folder, unity)
    assert project.tick(settings) == {}
    assert project.poll.latest_version == 3
    assert project.refresh(settings) == (0, 1, 2, 3)
    assert "not queried" not in health(project.instance)
    publish(folder, unity, 3)
    assert project.tick(settings) == {}
    assert project.refresh(settings) == ()
    ratify(folder, unity, 4, 4)
    assert project.tick(settings) == {}
    assert project.refresh(settings) == (4,)
    assert SnapshotStore.open(None, settings.storage).versions("events") == [0, 1, 2, 3, 4]
    assert project.row(settings)["condition"] != "broken"
    unity.refusals = [(403, {}, {})] * 20
    assert project.tick(settings).keys() == {"events"}
    row = project.row(settings)
    assert (row["condition"], row["latest_version"]) == ("broken", 4)
    assert row["reason"].startswith("catalog: main.silver.events: the token has no permission")


def test_store_in_the_folder_of_a_table_of_a_catalog_is_refused_before_anything_is_written(
    project: Project, unity: UnityServer
) -> None:
    unity.add("main.silver.events", (project.folder / "clicks").as_uri())
    settings = unity_settings(project.folder / "clicks", unity)
    with pytest.raises(DeltaSnapError, match="is in the folder of the table"):
        project.refresh(settings)
    assert not (project.folder / "clicks" / "store").exists()
