"""The Glue catalog, over HTTP with moto's server, and Delta tables that deltalake wrote into moto's S3."""

from __future__ import annotations

import uuid
from typing import Any

import boto3
import pyarrow as pa
import pytest
from deltalake import write_deltalake

from deltasnap_core import TableLog, open_table
from deltasnap_core.catalogs import CatalogTable, GlueCatalog
from deltasnap_core.errors import CatalogError, StorageError

SYMLINK = "org.apache.hadoop.hive.ql.io.SymlinkTextInputFormat"


@pytest.fixture
def location(s3_options: dict[str, Any]) -> str:
    """The URL of a new Delta table in S3 with two versions."""
    url, client = f"s3://lake/{uuid.uuid4().hex}/events", s3_options["client_kwargs"]
    storage = {
        "AWS_ENDPOINT_URL": client["endpoint_url"],
        "AWS_REGION": client["region_name"],
        "AWS_ACCESS_KEY_ID": "testing",
        "AWS_SECRET_ACCESS_KEY": "testing",
        "AWS_ALLOW_HTTP": "true",
        "AWS_S3_ALLOW_UNSAFE_RENAME": "true",
    }
    for number in (1, 2):
        write_deltalake(url, pa.table({"id": [number]}), mode="append", storage_options=storage)
    return url


def register(options: dict[str, Any], database: str, name: str, **table: Any) -> None:
    boto3.client("glue", **options).create_table(DatabaseName=database, TableInput={"Name": name, **table})


def registrations(url: str) -> dict[str, dict[str, Any]]:
    """The entries that the tools make for a Delta table."""
    return {
        "spark": {
            "Parameters": {"spark.sql.sources.provider": "delta"},
            "StorageDescriptor": {
                "Location": f"{url}-__PLACEHOLDER__",
                "SerdeInfo": {"Parameters": {"path": url, "serialization.format": "1"}},
            },
        },
        "spark_in_capitals": {
            "Parameters": {"spark.sql.sources.provider": "DELTA"},
            "StorageDescriptor": {"Location": url.replace("s3://", "s3a://")},
        },
        "athena": {"Parameters": {"table_type": "DELTA"}, "StorageDescriptor": {"Location": f"{url}/"}},
        "crawler": {
            "Parameters": {"classification": "delta", "CrawlerSchemaDeserializerVersion": "1.0"},
            "StorageDescriptor": {"Location": f"{url}/"},
        },
        "crawler_with_symlink_format": {
            "Parameters": {"classification": "parquet"},
            "StorageDescriptor": {"Location": f"{url}/_symlink_format_manifest/", "InputFormat": SYMLINK},
        },
    }


@pytest.mark.parametrize("tool", registrations(""))
def test_table_is_found_as_each_tool_registers_it(
    tool: str, glue_options: dict[str, Any], glue_database: str, location: str
) -> None:
    register(glue_options, glue_database, "events", Description="clicks", Owner="ada", **registrations(location)[tool])
    expected = CatalogTable(name=f"{glue_database}.events", location=location, comment="clicks", owner="ada")
    assert GlueCatalog(**glue_options).table(f"{glue_database}.events") == expected


def test_log_of_a_table_is_read_by_name(
    glue_options: dict[str, Any], s3_options: dict[str, Any], glue_database: str, location: str
) -> None:
    register(glue_options, glue_database, "events", **registrations(location)["athena"])
    table = open_table(f"{glue_database}.events", catalog=GlueCatalog(**glue_options), storage_options=s3_options)
    assert (table.version, table.snapshot.path) == (1, f"{location}/_delta_log")
    assert TableLog.for_table(f"{glue_database}.events", GlueCatalog(**glue_options)).table_path == location


def test_link_to_a_table_is_followed(glue_options: dict[str, Any], glue_database: str, location: str) -> None:
    register(glue_options, glue_database, "events", **registrations(location)["athena"])
    register(glue_options, glue_database, "link", TargetTable={"DatabaseName": glue_database, "Name": "events"})
    assert GlueCatalog(**glue_options).table(f"{glue_database}.link").location == location


@pytest.mark.parametrize(
    ("table", "found"),
    [
        ({"Parameters": {"table_type": "ICEBERG"}}, "a table of the format iceberg"),
        ({"Parameters": {"classification": "parquet"}}, "a table of the format parquet"),
        ({"TableType": "VIRTUAL_VIEW", "ViewOriginalText": "select 1"}, "a view"),
        ({}, "a table of unknown format"),
    ],
    ids=["iceberg", "parquet", "view", "empty"],
)
def test_other_kinds_of_tables_are_one_sentence(
    table: dict[str, Any], found: str, glue_options: dict[str, Any], glue_database: str
) -> None:
    register(glue_options, glue_database, "other", **table)
    with pytest.raises(CatalogError) as error:
        GlueCatalog(**glue_options).table(f"{glue_database}.other")
    assert str(error.value) == f"Table {glue_database}.other of the catalog: it is not a Delta table, but {found}."


@pytest.mark.parametrize(
    "location",
    ["https://example.org/t", "simplecache::s3://lake/t", "s3://lake/t::file:/etc", "lake/t", "s3://lake/../t", None],
)
def test_other_location_is_refused(location: str | None, glue_options: dict[str, Any], glue_database: str) -> None:
    place = {} if location is None else {"Location": location}
    register(glue_options, glue_database, "events", Parameters={"table_type": "delta"}, StorageDescriptor=place)
    with pytest.raises(CatalogError, match="location"):
        GlueCatalog(**glue_options).table(f"{glue_database}.events")


def test_missing_table_and_wrong_name_are_errors(glue_options: dict[str, Any], glue_database: str) -> None:
    catalog = GlueCatalog(**glue_options)
    with pytest.raises(CatalogError, match="Glue has no such table") as error:
        catalog.table(f"{glue_database}.gone")
    assert isinstance(error.value, StorageError)
    assert error.value.path == f"{glue_database}.gone"
    for name in ("events", "lake.silver.events", "silver.", ""):
        with pytest.raises(CatalogError, match=r"expected a name such as database\.table"):
            catalog.table(name)


@pytest.mark.slow
def test_catalog_that_is_down_is_a_transient_error(glue_options: dict[str, Any]) -> None:
    catalog = GlueCatalog(**{**glue_options, "endpoint_url": "http://127.0.0.1:9"})
    with pytest.raises(CatalogError, match="Glue cannot be reached") as error:
        catalog.table("silver.events")
    assert error.value.is_transient


@pytest.mark.slow
def test_pattern_returns_the_delta_tables_of_all_pages(glue_options: dict[str, Any], glue_database: str) -> None:
    for number in range(120):
        parameters = {"table_type": "delta" if number % 2 else "iceberg"}
        register(glue_options, glue_database, f"t{number:03}", Parameters=parameters)
    catalog = GlueCatalog(**glue_options)
    assert catalog.tables(f"{glue_database}.*") == [f"{glue_database}.t{number:03}" for number in range(1, 120, 2)]
    assert catalog.tables("bronze_*.t00[13]") == [f"{glue_database}.t001", f"{glue_database}.t003"]
    assert catalog.tables("other.*") == []


@pytest.mark.slow
def test_secrets_are_not_shown(glue_options: dict[str, Any]) -> None:
    catalog = GlueCatalog(**{**glue_options, "aws_secret_access_key": "very/secret/key", "endpoint_url": "http://x:1"})
    assert "very/secret/key" not in repr(catalog)
    with pytest.raises(CatalogError) as error:
        catalog.table("very/secret/key.events")
    assert "very/secret/key" not in str(error.value)
