"""Keys that compare paths of a log with listed files."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from deltasnap_core.scan.files.file_keys import FileKeys, normal_path

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.mark.parametrize(
    ("url", "path"),
    [
        ("file:///data/T", "/data/t"), ("s3://lake/A//./t/", "/a/t"), ("s3://lake", ""), ("file:///", ""),
        ("file:///C:\\lake\\t", "/c:/lake/t"),
    ],
)  # fmt: skip
def test_path_of_a_url_has_the_form_of_a_key(url: str, path: str) -> None:
    assert normal_path(url) == path


LISTED = {
    "Day=1/A b.parquet": ("/day=1/a b.parquet", "a b.parquet"),
    "./x//y/../z": ("/x/z", "z"),
    "../up": ("/up", "up"),
    "a\\b": ("/a/b", "b"),
}
BELOW = {
    "/data/t/in": "/in", "/data/tt/in": None, "/data/t": None, "/real/t/x/y": "/x/y", "/other/data/t/in": None,
    "in": None,
}  # fmt: skip
SHOWN = {
    "a.parquet": "a.parquet",
    "file:/data/T/x%20y": "x y",
    "file:///data/T/in": "in",
    "/data/tt/in": "file:/data/tt/in",
    "s3://lake/in": "s3://lake/in",
}

LOGGED: dict[str | None, tuple[list[str], bool]] = {
    "a": (["/a"], True),
    "Day=1/A%20b": (["/day=1/a b", "/day=1/a%20b"], True),
    "file:/data/T/x": (["/x"], True),
    "FILE://localhost/DATA/t/y": (["/y"], True),
    "local:///real/t/z": (["/z"], True),
    "/data/tt/x": (["x"], False),
    "file://host/data/t/x": (["x"], False),
    "s3://b/data/t/q?x#y": (["q?x#y", "q"], False),
    "/elsewhere/q#x?y": (["q#x?y", "q"], False),
    "../up": (["up"], False),
    "a/../../t/b": (["/b", "b"], True),
    "a\\b": (["/a/b"], True),
    ".": (["?"], False),
    "a%00": (["?", "/a%00"], False),
    "%ff": (["?", "/%ff"], False),
    None: (["?"], False),
}
"""Paths in the log of a table that `/data/T` and `/real/t` lead to: their keys, and whether they are inside."""

IN_BUCKET = {
    "a": (["/a"], True),
    "s3a://LAKE.x/t/b": (["/b"], True),
    "s3n://lake.x/T/c": (["/c"], True),
    "s3://lakeyx/t/d": (["d"], False),
    "S3://lake.x/other": (["other"], False),
    "s3://lake.x": (["lake.x"], False),
}


@pytest.mark.parametrize(
    ("roots", "paths"), [(["file:///data/T", "file:///real/t"], LOGGED), (["s3://lake.x/T"], IN_BUCKET)]
)
def test_paths_of_the_log_below_the_table_have_their_path_as_a_key_and_others_their_name(
    roots: list[str], paths: dict[str | None, tuple[list[str], bool]], spark: SparkSession
) -> None:
    keys = FileKeys(roots)
    rows = spark.createDataFrame([(path,) for path in paths], "path string").selectExpr(
        keys.of_logged("path"), keys.is_inside("path")
    )
    assert dict(zip(paths, map(tuple, rows.collect()), strict=True)) == paths


def test_listed_files_have_a_path_below_the_table_and_a_name(spark: SparkSession) -> None:
    keys = FileKeys(["file:///data/T", "file:///real/t"])

    def found(paths: dict[str, object], *sql: str) -> list[tuple[object, ...]]:
        rows = spark.createDataFrame([(path,) for path in paths], "path string").selectExpr(*sql).collect()
        return [tuple(row) for row in rows]

    assert found({**LISTED}, keys.of_listed("path"), keys.of_name("path")) == [*LISTED.values()]
    assert found({**BELOW}, keys._below("path")) == [(each,) for each in BELOW.values()]
    assert found({**SHOWN}, keys.shown("path")) == [(each,) for each in SHOWN.values()]
