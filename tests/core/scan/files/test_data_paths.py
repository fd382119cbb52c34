from __future__ import annotations

import pytest

from deltasnap_core.errors import DataPathError
from deltasnap_core.scan.files.data_paths import data_file_url, spark_name

TABLE = "file:///data/my table"


@pytest.mark.parametrize(
    ("path", "url"),
    [
        ("a.parquet", "file:///data/my table/a.parquet"),
        ("p=a%20b%2525/x+y.parquet", "file:///data/my table/p=a b%25/x+y.parquet"),
        ("p=x%3Ay/a.parquet", "file:///data/my table/p=x:y/a.parquet"),
        ("/data/my%20table/a.parquet", "file:///data/my table/a.parquet"),
        ("file:/data/my%20table/a.parquet", "file:///data/my table/a.parquet"),
        ("file:///data/my%20table/a.parquet", "file:///data/my table/a.parquet"),
        ("/clones/source/a.parquet", "file:///clones/source/a.parquet"),
    ],
)
def test_path_in_a_log_resolves_to_a_file(path: str, url: str) -> None:
    assert data_file_url(path, TABLE, ("/clones",)) == url


def test_absolute_path_without_a_scheme_is_on_the_file_system_of_the_table() -> None:
    assert data_file_url("/events/a.parquet", "s3://lake/events", ("s3://lake",)) == "s3://lake/events/a.parquet"


@pytest.mark.parametrize(
    "path",
    ["../other/a.parquet", "%2e%2e/a", "/etc/passwd", "file:///data/my%20table2/a", "s3://lake/a", "sub/../../a"],
)
def test_path_outside_the_table_is_rejected_without_permission(path: str) -> None:
    with pytest.raises(DataPathError) as reported:
        data_file_url(path, TABLE)
    assert path in str(reported.value)
    assert reported.value.table == TABLE


@pytest.mark.parametrize(
    ("url", "name"),
    [
        ("file:///a b/c%20d+e,f.parquet", "file:///a%20b/c%2520d+e,f.parquet"),
        ("s3a://lake/p=é?#[]{}/x.parquet", "s3a://lake/p=é%3F%23%5B%5D%7B%7D/x.parquet"),
        ("file:///a\u00a0b", "file:///a%C2%A0b"),
    ],
)
def test_spark_name_is_quoted_like_a_java_path(url: str, name: str) -> None:
    assert spark_name(url) == name
