"""Bounds of strings that a writer cut anywhere, also within a character: no file is lost, no checkpoint has them."""

from __future__ import annotations

import json
from random import Random
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deltasnap_core import DeltaLog, SnapshotOptions
from deltasnap_core.replay.engine import EngineUse
from deltasnap_core.rules.texts.whole_json import whole_characters_sql
from deltasnap_core.storage.urls import local_path
from tests.builders import add, field, metadata, protocol, schema, write_log
from tests.thorough import one_in

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

HALF = "a" * 31 + "\U0001f33c" + "zzz"
NESTED = {"type": "struct", "fields": [field("b", "string")]}
COLUMNS = schema(field("s", "string"), field("a", NESTED))
ENDS = {
    "high surrogate": "\ud83c",
    "low surrogate": "\udf3c",
    "high surrogate and a greater character": "\ud83c\U0010ffff",
    "question mark": "?",
    "replacement character": "\ufffd",
    "question mark and a greater character": "?\U0010ffff",
    "question mark and U+FFFD": "?\ufffd",
    "two replacement characters": "\ufffd\ufffd",
}
ALPHABET = "ab?\u00e9\u20ac\ufffd\uffff\U0001f33c\U0001f600\U0010ffff"


def statistics(low: str, high: str) -> str:
    low_values, high_values = ({"s": text, "a": {"b": text}} for text in (low, high))
    nulls = {"s": 0, "a": {"b": 0}}
    return json.dumps({"numRecords": 1, "minValues": low_values, "maxValues": high_values, "nullCount": nulls})


def table(folder: Path, *stats: str, **configuration: str) -> None:
    described = metadata(schemaString=COLUMNS, configuration=configuration)
    write_log(folder, {0: [protocol(), described, *(add(str(n), stats=each) for n, each in enumerate(stats))]})


def kept(spark: SparkSession, folder: Path, *wheres: str, engine: EngineUse = "auto") -> dict[str, set[int]]:
    """Return the files that scans select."""
    snapshot = DeltaLog.for_table(spark, folder, options=SnapshotOptions(engine=engine)).snapshot
    return {where: {int(row.path) for row in snapshot.scan(where).files.select("path").collect()} for where in wheres}


@pytest.mark.spark
@pytest.mark.parametrize("engine", one_in(2, ["auto", "spark"]))
def test_bound_with_half_a_character_keeps_the_file(spark: SparkSession, tmp_path: Path, engine: EngineUse) -> None:
    table(tmp_path, *(statistics("a" * 31 + end, "a" * 31 + end) for end in ENDS.values()), statistics("b", "c"))
    conditions = [f"= '{HALF}'", f">= '{HALF[:32]}'", f"> '{'a' * 32}'", f"in ('{HALF}', 'x')", f"like '{HALF[:33]}%'"]
    conditions += [f"not like '{'a' * 31}?%'"]
    wheres = [f"{name} {condition}" for name in ("s", "a.b") for condition in conditions]
    found = kept(spark, tmp_path, *wheres, "s = 'b'", engine=engine)
    unknown = {number for number, end in enumerate(ENDS) if "surrogate" in end}
    assert found.pop("s = 'b'") == {*unknown, len(ENDS)}
    assert [where for where, files in found.items() if not files >= set(range(len(ENDS)))] == []


def cut_bound(rng: Random, value: str) -> str:
    """Return a bound as some writer cuts it: after a number of UTF-16 units, characters or bytes."""
    unit, mark = rng.choice(["utf-16-le", "utf-8", "utf-32-le"]), rng.choice(["?", "\ufffd", "", "surrogate"])
    encoded = value.encode(unit)
    width = {"utf-16-le": 2, "utf-8": 1, "utf-32-le": 4}[unit]
    part = encoded[: width * rng.randint(0, len(encoded) // width)]
    if unit == "utf-16-le" and mark == "surrogate":
        text = part.decode(unit, "surrogatepass")
    else:
        text = part.decode(unit, "ignore")
        whole = len(text.encode(unit)) == len(part)
        text += "" if whole or mark == "surrogate" else "\ufffd" if unit == "utf-8" else mark
    return text


@pytest.mark.spark
@pytest.mark.parametrize("count", one_in(2, [5, 25]))
def test_bounds_cut_anywhere_lose_no_file(spark: SparkSession, tmp_path: Path, count: int) -> None:
    rng = Random(62)
    values = ["".join(rng.choices(ALPHABET, k=rng.randint(0, 6))) for _ in range(150)]
    appended = ["", "", "\ufffd", "\U0010ffff"]
    table(tmp_path, *(statistics(cut_bound(rng, each), cut_bound(rng, each) + rng.choice(appended)) for each in values))
    conditions = []
    for value in [*rng.sample(values, count), "", "a?", "?", "\ufffd", "\U0001f33c"]:
        operator = rng.choice(["=", ">=", ">", "<=", "<", "<=>", "like", "not like"])
        conditions.append(f"s {operator} '{value}{'%' if 'like' in operator else ''}'")
    frame = spark.createDataFrame(pa.table({"number": range(len(values)), "s": values}))
    found = kept(spark, tmp_path, *conditions)
    wanted = {where: {row.number for row in frame.where(where).collect()} for where in conditions}
    assert {where: lost for where in conditions if (lost := wanted[where] - found[where])} == {}
    assert sum(map(len, found.values())) < 0.8 * len(conditions) * len(values)  # otherwise, nothing is skipped


@pytest.mark.spark
@pytest.mark.parametrize("end", one_in(4, ENDS))
def test_checkpoint_has_no_bound_that_ends_in_half_a_character(spark: SparkSession, tmp_path: Path, end: str) -> None:
    sound = statistics("a" * 31 + "\u00e9", 'it\'s \U0001f33c, \\ud83c? "yes":"\ud83c\udf3c"')
    both = {"delta.checkpoint.writeStatsAsStruct": "true"}
    table(tmp_path, statistics("a" * 31 + ENDS[end], "a" * 31 + ENDS[end]), sound, **both)
    (file,) = DeltaLog.for_table(spark, tmp_path).checkpoint().files
    rows = sorted((row for row in pq.read_table(local_path(file.path))["add"].to_pylist() if row), key=path_of)
    unknown = {"s": None, "a": {"b": None}}
    assert [rows[0]["stats_parsed"][kind] for kind in ("minValues", "maxValues")] == [unknown, unknown]
    assert rows[0]["stats_parsed"]["numRecords"] == json.loads(rows[0]["stats"])["numRecords"] == 1
    if "surrogate" in end:
        assert json.loads(rows[0]["stats"])["maxValues"] == unknown
    assert json.loads(rows[1]["stats"]) == json.loads(sound)
    assert rows[1]["stats_parsed"]["maxValues"]["s"] == json.loads(sound)["maxValues"]["s"]


def path_of(row: dict[str, Any]) -> str:
    return str(row["path"])


def test_own_question_marks_of_a_value_stay_in_a_checkpoint(spark: SparkSession, tmp_path: Path) -> None:
    ends = ["Why?", "?", "", "x" * 40 + "?", "y" * 32 + "\ufffd", "\ufffd"]
    table(tmp_path, *(statistics(end, end) for end in ends), **{"delta.checkpoint.writeStatsAsStruct": "true"})
    (file,) = DeltaLog.for_table(spark, tmp_path).checkpoint().files
    rows = sorted((row for row in pq.read_table(local_path(file.path))["add"].to_pylist() if row), key=path_of)
    assert [row["stats_parsed"]["maxValues"]["s"] for row in rows] == ends


def test_json_with_halves_of_characters_loses_only_these_values(spark: SparkSession) -> None:
    texts = {
        r'{"a":"x\ud83c","b":"\ud83c\udf3c"}': {"a": None, "b": "\U0001f33c"},
        r'{"a" : "\uDF3C" ,"b":{"c":"\ud83c\ud83c\udf3c","d":"\\ud83c"}}': {
            "a": None,
            "b": {"c": None, "d": r"\ud83c"},
        },
        r'{"a":"x:","b":"y\"\ud83c\":\"z","c":":\",\"d\":"}': {"a": "x:", "b": None, "c": ':","d":'},
        r'{"\ud83c":"x","a":["\ud83c"],"b":"\\\ud83c\\"}': {"\ud83c": "x", "a": ["\ud83c"], "b": None},
        '{"a":"x\\ud83c' + 'y\\"' * 5000 + '","b":1}': {"a": None, "b": 1},
    }
    frame = spark.createDataFrame(pa.table({"number": range(len(texts)), "text": list(texts)}))
    found = frame.selectExpr("number", f"{whole_characters_sql('text')} as text").sort("number").toArrow()["text"]
    assert list(map(json.loads, found.to_pylist())) == list(texts.values())
