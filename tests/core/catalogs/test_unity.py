"""Unity Catalog over HTTP: the server of `tests/unity_server.py`, and tables in moto's S3 or on the local disk."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest

from deltasnap_core import CatalogCommits, DeltaLog, TableLog, open_table
from deltasnap_core.catalogs import CatalogTable, UnityCatalog
from deltasnap_core.errors import CatalogError, VersionNotFoundError
from deltasnap_core.log.listing.changing_log import check_unchanged
from deltasnap_core.redaction import REDACTED
from deltasnap_core.storage.temporary_options import TemporaryOptions
from tests.builders import add, commit_info, content, metadata, protocol, write_log
from tests.managed_table import NAME, managed, publish, ratified, ratify
from tests.unity_server import TOKEN, UnityServer

HOUR_MS = 3_600_000
AWS = {"access_key_id": "temporary-key", "secret_access_key": "temporary-secret", "session_token": "temporary-session"}


class Waits(list[float]):
    """Remembers pauses, and does not wait."""

    def __call__(self, seconds: float) -> None:
        self.append(seconds)


def catalog_of(unity: UnityServer, token: str | None = TOKEN, **options: Any) -> UnityCatalog:
    return UnityCatalog(unity.url, token, **{"pause": Waits(), **options})


@pytest.mark.parametrize("kind", ["EXTERNAL", "MANAGED"])
def test_table_is_found_with_its_facts(kind: str, unity: UnityServer, tmp_path: Path) -> None:
    write_log(tmp_path / "events", {0: [protocol(), metadata()], 1: [add("a")]})
    location = (tmp_path / "events").as_uri()
    unity.add("main.silver.events", f"{location}/", table_type=kind, comment="clicks", owner="ada")
    expected = CatalogTable(name="main.silver.events", location=location, comment="clicks", owner="ada")
    assert catalog_of(unity).table("main.silver.events") == expected
    assert open_table("main.silver.events", catalog=catalog_of(unity)).version == 1
    log = DeltaLog.for_table(None, "main.silver.events", catalog=catalog_of(unity))
    assert log is DeltaLog.for_table(None, location)


def test_temporary_credentials_read_the_storage_and_are_replaced_before_they_expire(
    unity: UnityServer, s3_options: dict[str, Any]
) -> None:
    now = [0]
    unity.add("main.silver.events", "s3://lake/unity/events")
    unity.credentials = {"aws_temp_credentials": AWS}
    unity.expires_ms = HOUR_MS
    options = catalog_of(unity, clock=lambda: now[0]).table("main.silver.events").storage_options
    assert [request for request in unity.requests if "credentials" in request] == []
    expected = {"key": "temporary-key", "secret": "temporary-secret", "token": "temporary-session"}
    assert dict(options) == expected
    now[0], unity.expires_ms = HOUR_MS - 301_000, 2 * HOUR_MS
    assert dict(options) == expected
    assert len(unity.requests) == 2
    unity.credentials = {"aws_temp_credentials": {**AWS, "secret_access_key": "another-secret"}}
    now[0] = HOUR_MS - 300_000
    assert options["secret"] == "another-secret"
    assert len(unity.requests) == 3


def test_log_that_is_kept_open_reads_with_new_credentials(unity: UnityServer, s3_options: dict[str, Any]) -> None:
    import fsspec

    with fsspec.open("s3://lake/kept/events/_delta_log/00000000000000000000.json", "wb", **s3_options) as file:
        file.write(content([protocol(), metadata()]))
    now = [0]
    unity.add("main.silver.events", "s3://lake/kept/events")
    unity.credentials, unity.expires_ms = {"aws_temp_credentials": AWS}, HOUR_MS
    own = {"client_kwargs": s3_options["client_kwargs"]}
    catalog = catalog_of(unity, clock=lambda: now[0])
    kept = DeltaLog.for_table(None, "main.silver.events", own, catalog=catalog)
    assert kept.update().version == 0
    now[0], unity.expires_ms = HOUR_MS, 2 * HOUR_MS
    assert kept.update().version == 0
    assert sum("credentials" in request for request in unity.requests) == 2


@pytest.mark.parametrize(
    ("location", "credentials", "expected"),
    [
        (
            "abfss://box@account.dfs.core.windows.net/t",
            {"azure_user_delegation_sas": {"sas_token": "sig=temporary"}},
            {"account_name": "account", "sas_token": "sig=temporary"},
        ),
        ("s3://lake/t", {"aws_temp_credentials": {**AWS, "session_token": None}}, {"token": None}),
    ],
    ids=["azure", "aws without a session"],
)
def test_credentials_are_options_of_the_filesystem(
    location: str, credentials: dict[str, Any], expected: dict[str, Any], unity: UnityServer
) -> None:
    unity.add("main.silver.events", location)
    unity.credentials = credentials
    options = catalog_of(unity).table("main.silver.events").storage_options
    assert expected.items() <= dict(options).items()


@pytest.mark.parametrize(
    ("credentials", "found"),
    [({}, "none"), ({"azure_aad": {"aad_token": "x"}}, "azure_aad"), ({"aws_temp_credentials": {}}, "aws_temp")],
)
def test_unusable_credentials_are_one_sentence(credentials: Any, found: str, unity: UnityServer) -> None:
    unity.add("main.silver.events", "s3://lake/t")
    unity.credentials = credentials
    options = catalog_of(unity).table("main.silver.events").storage_options
    with pytest.raises(CatalogError, match=f"no credentials that can be used, but {found}"):
        dict(options)


@pytest.mark.parametrize(
    ("info", "found"),
    [
        ({"data_source_format": "ICEBERG"}, "a table of the format iceberg"),
        ({"data_source_format": "PARQUET"}, "a table of the format parquet"),
        ({"table_type": "VIEW", "data_source_format": None}, "a view"),
        ({"table_type": "MATERIALIZED_VIEW"}, "a materialized view"),
        ({"data_source_format": 7}, "a table of the format 7"),
    ],
    ids=["iceberg", "parquet", "view", "materialized view", "wrong type"],
)
def test_other_kinds_of_tables_are_one_sentence(info: dict[str, Any], found: str, unity: UnityServer) -> None:
    unity.add("main.silver.other", "s3://lake/t", **info)
    with pytest.raises(CatalogError) as error:
        catalog_of(unity).table("main.silver.other")
    assert str(error.value) == f"Table main.silver.other of the catalog: it is not a Delta table, but {found}."


@pytest.mark.parametrize(
    "scheme", ["file", "s3", "s3a", "s3n", "gs", "abfs", "abfss", "az", "adl", "wasb", "wasbs", "hdfs", "memory", "S3"]
)
def test_location_is_a_folder_in_a_known_storage(scheme: str) -> None:
    assert CatalogTable.of("t", f"{scheme}://lake/t/").location.endswith("lake/t")


@pytest.mark.parametrize("location", [None, 7, "", "https://example.org/t", "dbfs:/t", "s3://lake/a::file:/etc", "x\n"])
def test_location_of_another_kind_is_refused(location: Any, unity: UnityServer) -> None:
    unity.add("main.silver.events", location)
    with pytest.raises(CatalogError, match="location"):
        catalog_of(unity).table("main.silver.events")


def test_table_without_an_id_is_an_error_unless_it_is_local(unity: UnityServer) -> None:
    unity.add("main.silver.events", "s3://lake/t", table_id=None)
    with pytest.raises(CatalogError, match="table_id"):
        catalog_of(unity).table("main.silver.events")


@pytest.mark.parametrize(
    ("status", "reason", "transient"),
    [
        (401, "does not accept the token", False),
        (403, "no permission", False),
        (404, "no such table", False),
        (307, "answers with an error", False),
        (400, "answers with an error", False),
    ],
)
def test_refusal_is_one_sentence_with_the_message_of_the_catalog(
    status: int, reason: str, transient: bool, unity: UnityServer
) -> None:
    answer = {"error_code": "X", "message": f"because\n of {TOKEN}"}
    unity.refusals = [(status, {"Location": "http://127.0.0.1:9/x"}, answer)]
    with pytest.raises(CatalogError) as error:
        catalog_of(unity).table("main.silver.events")
    assert reason in str(error.value)
    assert f"(HTTP {status}: because of {REDACTED})" in str(error.value)
    assert (error.value.is_transient, len(unity.requests)) == (transient, 1)


def test_wrong_token_is_an_error_that_does_not_show_it(unity: UnityServer) -> None:
    with pytest.raises(CatalogError, match="HTTP 401") as error:
        catalog_of(unity, "another-token").table("main.silver.events")
    assert "another-token" not in f"{error.value!r}{error.value.__cause__!r}"


def test_throttled_request_waits_as_long_as_the_catalog_says(unity: UnityServer) -> None:
    unity.add("main.silver.events", "file:///t")
    unity.refusals = [(429, {"Retry-After": "3"}, {}), (429, {"Retry-After": "900"}, {}), (503, {}, {})]
    waits = Waits()
    assert catalog_of(unity, pause=waits).table("main.silver.events").location == "file:///t"
    assert {3.0, 10.0} <= set(waits)
    assert len(unity.requests) == 4


def test_catalog_that_throttles_for_long_is_a_transient_error(unity: UnityServer) -> None:
    unity.refusals = [(500, {}, b"<html>") for _ in range(20)]
    with pytest.raises(CatalogError, match="HTTP 500") as error:
        catalog_of(unity).table("main.silver.events")
    assert error.value.is_transient


def test_catalog_that_is_down_is_a_transient_error() -> None:
    with pytest.raises(CatalogError, match="cannot be reached") as error:
        UnityCatalog("http://127.0.0.1:9", TOKEN, pause=Waits()).table("main.silver.events")
    assert error.value.is_transient


@pytest.mark.parametrize("body", [b"not json", b"[]", b"7", b""])
def test_answer_that_is_no_object_is_an_error(body: bytes, unity: UnityServer) -> None:
    unity.refusals = [(200, {}, body)]
    with pytest.raises(CatalogError, match="not a JSON object"):
        catalog_of(unity).table("main.silver.events")


@pytest.mark.parametrize("name", ["events", "silver.events", "a.b.c.d", "main..events", ""])
def test_name_needs_three_parts(name: str, unity: UnityServer) -> None:
    with pytest.raises(CatalogError, match="expected a name such as"):
        catalog_of(unity).table(name)
    assert unity.requests == []


def test_pattern_returns_the_delta_tables_of_all_pages(unity: UnityServer) -> None:
    for schema in ("bronze", "silver", "bronze_2"):
        for number in range(5):
            unity.add(f"main.{schema}.t{number}", "s3://lake/t", data_source_format="DELTA" if number else "CSV")
    catalog = catalog_of(unity)
    assert catalog.tables("main.bronze.*") == [f"main.bronze.t{number}" for number in range(1, 5)]
    assert catalog.tables("main.*.t[12]") == [
        f"main.{schema}.t{number}" for schema in ("bronze", "bronze_2", "silver") for number in (1, 2)
    ]
    assert catalog.tables("main.gold.*") == []


def test_page_that_names_itself_as_the_next_one_ends(unity: UnityServer) -> None:
    page = {"schemas": [{"name": "bronze"}, "x", {"name": None}], "next_page_token": "again"}
    unity.refusals = [(200, {}, page), (200, {}, page), (200, {}, {"tables": "x"})]
    assert catalog_of(unity).tables("main.bronze.*") == []


def test_host_is_an_http_address() -> None:
    assert repr(UnityCatalog("workspace.example/")) == "UnityCatalog('https://workspace.example')"
    for host in ("ftp://host", "https://", ""):
        with pytest.raises(ValueError, match="https://"):
            UnityCatalog(host)


def test_secrets_are_never_shown(unity: UnityServer, caplog: pytest.LogCaptureFixture) -> None:
    unity.add("main.silver.events", "s3://lake/t")
    unity.credentials = {"aws_temp_credentials": AWS}
    with caplog.at_level(logging.DEBUG):
        catalog = catalog_of(unity)
        table = catalog.table("main.silver.events")
        assert isinstance(table.storage_options, TemporaryOptions)
        dict(table.storage_options)
    shown = f"{catalog!r} {table!r} {table.storage_options!r} {caplog.text}"
    assert not any(secret in shown for secret in (TOKEN, *AWS.values()))


def test_ratified_commits_of_all_answers_are_part_of_a_managed_table(unity: UnityServer, tmp_path: Path) -> None:
    managed(unity, tmp_path)
    commits = ratified(tmp_path, range(2, 7))
    unity.commits = {"id-of-main.silver.events": {"commits": commits, "latest_table_version": 6}}
    table = open_table("main.silver.events", catalog=catalog_of(unity))
    assert (table.version, table.files().count()) == (6, 6)
    assert open_table("main.silver.events", version=4, catalog=catalog_of(unity)).files().count() == 4
    requests = [request for request in unity.requests if "commits" in request]
    assert len(requests) == 2 * (3 + 3)  # to look it up, and to list its log


@pytest.mark.parametrize("latest", [-1, 1])
def test_managed_table_whose_commits_are_all_published_is_read(latest: int, unity: UnityServer, tmp_path: Path) -> None:
    managed(unity, tmp_path)
    unity.commits = {"id-of-main.silver.events": {"commits": [], "latest_table_version": latest}}
    assert open_table("main.silver.events", catalog=catalog_of(unity)).version == 1


def test_catalog_without_an_api_for_commits_gives_the_published_ones(unity: UnityServer, tmp_path: Path) -> None:
    managed(unity, tmp_path)
    assert catalog_of(unity).table("main.silver.events").commits == CatalogCommits()


@pytest.mark.parametrize(
    "changed",
    [
        {"file_name": "../../00000000000000000002.json"},
        {"file_name": 7},
        {"version": 3},
        {"file_size": "many"},
        {"file_modification_timestamp": None},
        {"file_size": float("inf")},
        {"file_size": -1},
        {"file_size": 1 << 63},
        {"version": True},
    ],
)
def test_commit_with_other_content_is_an_error(changed: dict[str, Any], unity: UnityServer, tmp_path: Path) -> None:
    managed(unity, tmp_path)
    (commit,) = ratified(tmp_path, range(2, 3))
    unity.commits = {"id-of-main.silver.events": {"commits": [commit | changed], "latest_table_version": 2}}
    with pytest.raises(CatalogError, match="commits that cannot be used"):
        catalog_of(unity).table("main.silver.events")


@pytest.fixture
def followed(unity: UnityServer, tmp_path: Path) -> UnityServer:
    """The catalog of a managed table with the published versions 0 and 1, and the ratified versions 2 and 3."""
    managed(unity, tmp_path)
    ratify(tmp_path, unity, 2, 3)
    return unity


def test_log_of_a_name_has_the_ratified_commits_as_they_are_now(followed: UnityServer, tmp_path: Path) -> None:
    log = TableLog.for_table("main.silver.events", catalog_of(followed))
    assert (log.latest().segment.version, log.at(2).segment.version) == (3, 2)
    assert [entry.version for entry in log.history.get_history()] == [3, 2, 1, 0]
    assert log.condition().newest_loadable == 3
    publish(tmp_path, followed, 2)
    ratify(tmp_path, followed, 4, 4)
    assert log.latest().segment.version == 4


def test_delta_log_of_a_name_follows_ratified_and_published_commits(
    followed: UnityServer, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    log = DeltaLog.for_table(None, "main.silver.events", catalog=catalog_of(followed))
    assert (log.snapshot.version, log.update().version, log.get_snapshot_at(2).version) == (3, 3, 2)
    publish(tmp_path, followed, 3)
    assert (log.update().version, open_table("main.silver.events", catalog=catalog_of(followed)).version) == (3, 3)
    assert "managed by a catalog" not in caplog.text


def test_poll_of_a_name_finds_ratified_commits_and_continues_when_they_are_published(
    followed: UnityServer, tmp_path: Path
) -> None:
    log = TableLog.for_table("main.silver.events", catalog_of(followed))
    cursor = log.cursor(log.status())
    assert (cursor.version, log.new_commits(cursor)) == (3, None)
    publish(tmp_path, followed, 3)
    found = log.new_commits(cursor)
    assert found is None or (found.versions, found.is_fork) == ((), False)
    ratify(tmp_path, followed, 4, 5)
    found = log.new_commits(cursor)
    assert found is not None
    assert (found.versions, found.is_fork) == ((4, 5), False)


def test_published_commit_that_the_catalog_has_not_ratified_is_not_read(followed: UnityServer, tmp_path: Path) -> None:
    write_log(tmp_path, {4: [commit_info(inCommitTimestamp=4), add("4")]})
    log = TableLog.for_table("main.silver.events", catalog_of(followed))
    assert log.latest().segment.version == 3


def test_latest_version_of_the_catalog_must_exist(followed: UnityServer) -> None:
    followed.commits["id-of-main.silver.events"]["commits"].pop()
    log = TableLog.for_table("main.silver.events", catalog_of(followed))
    with pytest.raises(VersionNotFoundError, match=r"Version 3 .* does not exist"):
        log.latest()


def test_catalog_that_gives_commits_as_a_value_is_asked_at_each_listing(followed: UnityServer) -> None:
    class OwnCatalog:
        def table(self, name: str) -> CatalogTable:
            found = catalog_of(followed).table(name)
            return CatalogTable(name=name, location=found.location, commits=found.commits)

        def tables(self, pattern: str) -> list[str]:
            return [pattern]

    assert TableLog.for_table("main.silver.events", OwnCatalog()).latest().segment.version == 3
    assert open_table("main.silver.events", catalog=OwnCatalog()).version == 3


def test_commits_that_are_published_while_they_are_read_are_no_changed_log(
    followed: UnityServer, tmp_path: Path
) -> None:
    log = TableLog.for_table(NAME, catalog_of(followed))
    listed = log.list()
    publish(tmp_path, followed, 3)
    check_unchanged(listed, log.list(), ())
    condition = log.condition(listed)
    assert (condition.newest_loadable, condition.faults) == (3, ())
