"""The keys of paths: decoded once, the same in SQL, in Arrow and in `urllib.parse.unquote`, and hashed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING
from urllib.parse import quote, unquote

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, example, given, settings, strategies as st

from deltasnap_core.rules.key_hash import xxhash64
from deltasnap_core.rules.paths import path_key_sql, path_keys

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOG = "s3://lake/t/_delta_log"
CASES = (
    "plain.parquet",
    "日期=2020-01-01%2000%253A00/part-0.parquet",
    "aé%20b.parquet",
    "%2é",
    "%é2",
    "%２０",  # digits, but not ASCII
    "p=a%20b/x+y.parquet",
    "p=%C3%A4/%e2%82%ac.parquet",
    "no%encoding%2",
    "half%20valid%zz",
    "%25%32%35",
    "%2%35",
    "%%35%35",
    "%2%35%25",  # an escape that decoding forms, next to one of a percent sign
    "%2541%41",  # an escaped percent sign before an escape that occurs elsewhere
    "%ED%A0%80/lone surrogate",
    "%ED%A0%BD%ED%B8%80",
    "%C3é%A9",
    "%FF%FE%00",
    "\U0001f600%F0%9F%98%80\U0010ffff",
    "/data/else/x%20y.parquet",
    "file:///data/else/x%20é.parquet",
    "s3://bucket/%66.parquet",
    "line\u2028%20.parquet",
    "%0A%5C%27'\\",
    "",
    "%",
)

_CHARACTERS = st.characters(exclude_categories=["Cs"])
_ESCAPED_CHARACTERS = st.characters().map(lambda character: quote(character.encode("utf-8", "surrogatepass")))
_ESCAPED_BYTES = st.integers(0, 255).flatmap(lambda byte: st.sampled_from([f"%{byte:02x}", f"%{byte:02X}"]))
_MALFORMED = st.sampled_from(["%", "%%", "%2", "%g1", "%1g", "%-1", "%+1", "% 1", "%２０", "%é"])
PATHS = st.lists(_CHARACTERS | st.sampled_from("+/%2a ") | _ESCAPED_CHARACTERS | _ESCAPED_BYTES | _MALFORMED).map(
    "".join
)

Keys = Callable[[Sequence[str]], list[str]]


@pytest.fixture(params=["arrow", "sql"])
def keys(request: pytest.FixtureRequest) -> Keys:
    if request.param == "arrow":
        return lambda paths: path_keys(pa.array(paths, pa.string()), LOG).to_pylist()
    spark: SparkSession = request.getfixturevalue("spark")
    request.getfixturevalue("compiled")

    def in_sql(paths: Sequence[str]) -> list[str]:
        rows = spark.createDataFrame(pa.table({"path": pa.array(paths, pa.string())})).coalesce(1)
        (found,) = rows.selectExpr(f"collect_list({path_key_sql('path', LOG)}) as keys").collect()
        return list(found["keys"])

    return in_sql


def expected(path: str) -> str:
    if path.startswith("/"):
        path = f"s3://lake{path}"
    if path.startswith("file:///"):
        path = "file:" + path.removeprefix("file://")
    try:
        return unquote(path, errors="strict")
    except UnicodeDecodeError:
        return path


@pytest.mark.slow
@settings(max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(paths=st.lists(PATHS, min_size=1, max_size=100))
@example(paths=list(CASES))
def test_path_keys_of_any_paths_are_decoded_once(keys: Keys, paths: list[str]) -> None:
    assert keys(paths) == [expected(path) for path in paths]


@pytest.mark.parametrize("path", CASES, ids=ascii)
def test_path_key_of_one_path_is_decoded_once(path: str) -> None:
    assert path_keys(pa.array([path]), LOG).to_pylist() == [expected(path)]


def test_paths_with_different_bytes_that_are_not_utf8_have_different_keys(keys: Keys) -> None:
    assert len(set(keys(["p=%FE/f", "p=%FF/f", "p=%EF%BF%BD/f"]))) == 3


def test_path_keys_of_a_slice_exclude_other_rows() -> None:
    assert path_keys(pa.array(["%FF", "a%20b", "%zz"]).slice(1, 1), LOG).to_pylist() == ["a b"]


if TYPE_CHECKING:
    from pyspark.sql import SparkSession

HASHES = {
    "": -7444071767201028348,
    "a": -8582455328737087284,
    "abc": 1423657621850124518,
    "part": -3765306098603253786,
    "part-00": 9087963231745716947,
    "part-000": -758707339694798916,
    "part-00001-c": -370641623938960404,
    "part-00001-c000": -3245568890243850280,
    "day=2026-01-01/ä€😀": 7080374832167578516,
    "x" * 31: -1716462135722163746,
    "x" * 32: 1299777543150008824,
    "x" * 37: -1711886875604265694,
    "date=2026-01-01/part-00000-3b2a1c4d.c000.snappy.parquet": 2355191648571754421,
    "0123456789abcdef" * 4: 6907118658063106616,
}
"""What Spark's `xxhash64` returns: texts of 0 to 64 bytes, with and without a rest of 8, 4 and 1 bytes."""


@pytest.mark.parametrize("text", HASHES)
def test_hash_of_a_text_is_stable(text: str) -> None:
    assert xxhash64(text) == HASHES[text]


@pytest.mark.usefixtures("compiled")
def test_hash_matches_spark(spark: SparkSession) -> None:
    from pyspark.sql import functions as F

    texts = [*HASHES, *("part-0001-ä€😀.snappy.parquet "[:length] * (1 + length // 30) for length in range(32))]
    rows = spark.createDataFrame([(text,) for text in texts], "text string").select("text", F.xxhash64("text"))
    assert {text: xxhash64(text) for text in texts} == dict(rows.collect())
