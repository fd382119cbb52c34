"""`file_problems` lists the live files that storage does not have as the log describes them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal
from unicodedata import normalize

import pytest

from deltasnap_core import DeltaLog, SnapshotStore
from tests.builders import Action, add, metadata, protocol, remove, write_log

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

VECTOR_UUID = "00000000-0000-0000-0000-000000000000"
VECTOR_FILE = f"deletion_vector_{VECTOR_UUID}.bin"
FIRST = (protocol(3, 7, readerFeatures=["deletionVectors"], writerFeatures=["deletionVectors"]), metadata())


def write_table(table: Path, *files: Action, stored: tuple[str, ...] = ()) -> None:
    """Write a log that adds the files, and files of three bytes."""
    write_log(table, {0: [*FIRST, *files]})
    for name in stored:
        file = table / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(b"PAR")


def problems(spark: SparkSession, table: Path) -> dict[str, tuple[Any, ...]]:
    frame = DeltaLog.for_table(spark, table).update().tables.file_problems()
    return {row.path: (row.problem, row.certain, row.size, row.listed_size) for row in frame.collect()}


def vector(storage_type: str, path: str) -> dict[str, Any]:
    return {"storageType": storage_type, "pathOrInlineDv": path, "offset": 1, "sizeInBytes": 34, "cardinality": 1}


def test_live_files_that_are_missing_or_have_the_wrong_size_are_listed(spark: SparkSession, tmp_path: Path) -> None:
    files = [add(name, size=3) for name in ("a", "day=1/b", "day=1/c%20c")]
    write_table(tmp_path, *files, add("longer", size=4), add("d", size=3), stored=("a", "day=1/c c", "longer"))
    write_log(tmp_path, {1: [add("removed", size=3)], 2: [remove("removed")]})
    assert problems(spark, tmp_path) == {
        "day=1/b": ("missing", True, 3, None),
        "d": ("missing", True, 3, None),
        "longer": ("wrong size", True, 4, 3),
    }


def test_missing_deletion_vector_is_listed(spark: SparkSession, tmp_path: Path) -> None:
    zero = "0" * 20
    files = [add(name, size=3, deletionVector=vector("u", zero)) for name in ("a", "b")]
    write_table(tmp_path, *files, stored=("a", "b"))
    assert problems(spark, tmp_path) == {VECTOR_FILE: ("missing", True, None, None)}
    (tmp_path / VECTOR_FILE).write_bytes(b"?")
    assert problems(spark, tmp_path) == {}


def test_names_are_equal_in_every_normal_form(spark: SparkSession, tmp_path: Path) -> None:
    names: dict[Literal["NFC", "NFD"], str] = {"NFC": "caf\u00e9", "NFD": "the\u00e9"}
    stored = tuple(normalize(form, name) for form, name in names.items())
    write_table(tmp_path, *(add(name, size=3) for name in names.values()), stored=stored)
    assert problems(spark, tmp_path) == {}


def test_files_outside_of_the_folder_and_paths_that_cannot_be_resolved_are_not_compared(
    spark: SparkSession, tmp_path: Path
) -> None:
    write_table(tmp_path, add("s3://lake/other/a", size=3), add("%00", size=3))
    found = problems(spark, tmp_path)
    assert found.pop("s3://lake/other/a") == ("outside the folder of the table", False, 3, None)
    ((problem, certain, *_),) = found.values()
    assert (problem, certain) == ("its path cannot be resolved", False)


def test_file_behind_a_symbolic_link_is_not_called_missing(spark: SparkSession, tmp_path: Path) -> None:
    write_table(tmp_path / "t", add("linked/a", size=3), add("b", size=3), stored=("b",))
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "a").write_bytes(b"PAR")
    (tmp_path / "t" / "linked").symlink_to(tmp_path / "elsewhere")
    expected = ("not listed, but a symbolic link may lead to it", False, 3, None)
    assert problems(spark, tmp_path / "t") == {"linked/a": expected}


def test_files_of_a_stored_version_are_compared_too(spark: SparkSession, tmp_path: Path) -> None:
    write_table(tmp_path / "t", add("a", size=3), add("b", size=3), stored=("b",))
    store = SnapshotStore.open(spark, tmp_path / "store")
    store.write_range("t", DeltaLog.for_table(spark, tmp_path / "t"), 0, 0)
    assert [row.path for row in store.tables("t", 0).file_problems().collect()] == ["a"]
