"""The data files of a scan, checked before Spark reads them, and the numbers of changed files."""

from __future__ import annotations

import json
from typing import Any

import pytest

from deltasnap_core import ChangeSummary, Metadata
from deltasnap_core.errors import CorruptLogError, DataFileNotFoundError, DataPathError
from deltasnap_core.replay.sessions import GivenSession
from deltasnap_core.replay.spark.session.spark_files import SparkFiles
from deltasnap_core.scan.file_lookup import _data_files, _malformed, data_files
from deltasnap_core.scan.files.data_file import DataFile
from deltasnap_core.scan.row_joins import join_of_listed
from deltasnap_core.scan.row_reader import _literal
from deltasnap_core.scan.scanned_table import ScannedTable
from tests.builders import VECTOR_AT_4, MemoryLogStore
from tests.core.scan.files_to_read_builders import Copies

TABLE = "s3://lake/my t"


def table(files: SparkFiles, **columns: str) -> ScannedTable:
    fields = [{"name": name, "type": kind, "nullable": True, "metadata": {}} for name, kind in columns.items()]
    schema = json.dumps({"type": "struct", "fields": [*fields, {**ID}]})
    metadata = Metadata(id="t", schema_string=schema, partition_columns=tuple(columns), configuration={})
    return ScannedTable(
        sessions=GivenSession(None),
        table_path=TABLE,
        version=7,
        metadata=metadata,
        store=MemoryLogStore(),
        spark_files=files,
    )


ID = {"name": "id", "type": "long", "nullable": True, "metadata": {}}


def file(path: str, **values: Any) -> dict[str, Any]:
    defaults: dict[str, Any] = {
        "path": path,
        "partitionValues": {},
        "size": None,
        "modificationTime": None,
        "deletionVector": None,
    }
    return {**defaults, **values}


def test_files_have_their_url_the_name_that_spark_reads_values_and_vector() -> None:
    files = Copies()
    adds = [
        file("a%20b", size=3, modificationTime=5, partitionValues={"p": "1"}, deletionVector=VECTOR_AT_4),
        file("c"),
    ]
    first, second = data_files(table(files, p="string"), adds)
    assert (first.url, first.readable) == (f"{TABLE}/a b", "file:///copy/0")
    assert (dict(first.partition_values), first.only, first.tags) == ({"p": "1"}, None, ())
    assert first.vector is not None
    assert (first.vector.cardinality, first.vector.offset) == (1, 4)
    assert (second.url, dict(second.partition_values), second.vector) == (f"{TABLE}/c", {}, None)
    assert [(each.path, each.size, each.modification_time) for each in files.asked] == [
        (f"{TABLE}/a b", 3, 5),
        (f"{TABLE}/c", 0, 0),
    ]


def test_no_files_need_no_check_of_partition_values() -> None:
    assert data_files(table(Copies(), n="long"), []) == []


def test_partition_value_of_another_type_is_named_with_its_file_and_version() -> None:
    typed = table(Copies(), n="long", p="string")
    assert _malformed(typed).startswith("case when ")
    assert _malformed(typed).count(" when ") == 1
    with pytest.raises(CorruptLogError, match=r"version 7, file a, partition column n: .* type long, found 'x'"):
        _data_files(typed, [{**file("a", partitionValues={"n": "x", "p": "y"}), "malformed": "n"}])
    assert _malformed(table(Copies(), p="string")) == "null"


@pytest.mark.parametrize("name", ["_a.parquet", ".a", "day=1/_b", "a._COPYING_"])
def test_file_that_spark_would_skip_is_an_error(name: str) -> None:
    with pytest.raises(DataPathError, match="Spark skips files with such a name"):
        data_files(table(Copies()), [file(name)])


def test_file_that_is_gone_is_named_with_its_version() -> None:
    with pytest.raises(DataFileNotFoundError) as raised:
        data_files(table(Copies(FileNotFoundError(f"{TABLE}/a"))), [file("a")])
    assert (raised.value.path, raised.value.version) == (f"{TABLE}/a", 7)


def test_incomplete_deletion_vector_is_a_corrupt_log() -> None:
    with pytest.raises(CorruptLogError, match="the deletion vector of s3://lake/my t/a: "):
        data_files(table(Copies()), [file("a", deletionVector={"storageType": "u"})])


@pytest.mark.parametrize(
    ("readable", "names"),
    [("file:///a b/c", ("file:/a%20b/c", "file:///a%20b/c")), ("s3a://lake/a", ("s3a://lake/a",))],
)
def test_local_file_has_both_names_that_hadoop_gives_it(readable: str, names: tuple[str, ...]) -> None:
    assert DataFile(path="a", url="", readable=readable, partition_values={}, vector=None).names == names


def test_rows_of_files_are_joined_with_the_chosen_or_the_deleted_ones() -> None:
    (with_vector,) = data_files(table(Copies()), [file("a", deletionVector=VECTOR_AT_4)])
    plain = DataFile(path="a", url="a", readable="a", partition_values={}, vector=None)
    only: Any = [1]
    chosen = DataFile(path="a", url="a", readable="a", partition_values={}, vector=with_vector.vector, only=only)
    assert [join_of_listed(each) for each in (plain, with_vector, chosen)] == [None, "left_anti", "left_semi"]


def test_partition_values_are_literals_of_their_bytes() -> None:
    assert _literal(None) == "cast(null as string)"
    assert "' or 1" not in _literal("x' or 1")


def summary(**values: int) -> ChangeSummary:
    numbers = ("added_files", "added_bytes", "removed_files", "removed_bytes", "rearranged_files")
    return ChangeSummary(**{**dict.fromkeys((*numbers, "files_with_other_vector"), 0), **values})


def test_changes_are_append_only_if_no_file_was_removed_or_rearranged() -> None:
    assert summary(added_files=5, added_bytes=9).is_append_only
    assert not summary(removed_files=1).is_append_only
    assert not summary(rearranged_files=1).is_append_only


def test_reasons_count_each_removed_file_once() -> None:
    assert summary(added_files=1).why_not_append_only == ()
    assert [text.split()[0] for text in summary(removed_files=3, files_with_other_vector=1).why_not_append_only] == [
        "2",
        "1",
    ]
    (only,) = summary(removed_files=2, files_with_other_vector=2).why_not_append_only
    assert only.startswith("2 files have a new deletion vector")
    (only,) = summary(rearranged_files=4).why_not_append_only
    assert only.startswith("4 files only rearrange rows")
