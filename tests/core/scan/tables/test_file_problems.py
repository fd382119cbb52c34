"""`file_problems` lists the live files that storage does not have as the log describes them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal
from unicodedata import normalize

import pytest

from deltasnap_core import DeltaLog, SnapshotStore
from tests.builders import Action, add, remove, write_log
from tests.core.scan.tables.vacuum_candidates_builders import FIRST, VECTOR_FILE, vector
from tests.driver_bases import use_driver_bases

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from deltasnap_core import MetadataTables


def write_table(table: Path, *files: Action, stored: tuple[str, ...]) -> None:
    """Write a log that adds the files, and files of three bytes."""
    write_log(table, {0: [*FIRST, *files]})
    for name in stored:
        file = table / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(b"PAR")


def problems(tables: MetadataTables) -> dict[str, tuple[Any, ...]]:
    return {row.path: (row.problem, row.certain, row.size, row.listed_size) for row in tables.file_problems().collect()}


def test_live_files_and_vectors_that_are_missing_or_of_wrong_size_are_listed(
    spark: SparkSession, tmp_path: Path
) -> None:
    zero = "0" * 20
    normal_forms: dict[Literal["NFC", "NFD"], str] = {"NFC": "caf\u00e9", "NFD": "the\u00e9"}
    files = [add(name, size=3) for name in ("a", "day=1/b", "day=1/c%20c", "d", *normal_forms.values())]
    files += [add(name, size=3, deletionVector=vector("u", zero)) for name in ("v1", "v2")]
    files += [add("v3", size=3, deletionVector=vector("u", f"ab{zero}")), add("longer", size=4)]
    others = (normalize(form, name) for form, name in normal_forms.items())
    stored = ("a", "day=1/c c", "longer", "v1", "v2", "v3", f"ab/{VECTOR_FILE}", *others)
    write_table(tmp_path, *files, add("s3://lake/other/a", size=3), add("%00", size=3), stored=stored)
    write_log(tmp_path, {1: [add("removed", size=3)], 2: [remove("removed")]})
    found = problems(DeltaLog.for_table(spark, tmp_path).update().tables)
    expected = {
        "day=1/b": ("missing", True, 3, None),
        "d": ("missing", True, 3, None),
        VECTOR_FILE: ("missing", True, None, None),
        "longer": ("wrong size", True, 4, 3),
        "s3://lake/other/a": ("outside the folder of the table", False, 3, None),
    }
    assert {path: found.pop(path, None) for path in expected} == expected
    assert [each[:2] for each in found.values()] == [("its path cannot be resolved", False)]


def test_file_behind_a_symbolic_link_is_not_called_missing_also_in_a_stored_version(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_driver_bases(monkeypatch)
    write_table(tmp_path / "t", add("linked/a", size=3), add("b", size=3), stored=("b",))
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "a").write_bytes(b"PAR")
    (tmp_path / "t" / "linked").symlink_to(tmp_path / "elsewhere")
    store = SnapshotStore.open(spark, tmp_path / "store")
    store.write_range("t", DeltaLog.for_table(spark, tmp_path / "t"), 0, 0)
    expected = ("not listed, but a symbolic link may lead to it", False, 3, None)
    assert problems(store.tables("t", 0)) == {"linked/a": expected}
