from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("deltalake")

import numpy as np
from deltalake import DeltaTable

from benchmarks import answers
from benchmarks.logs import columns, maker
from benchmarks.logs.maker import make_table
from benchmarks.logs.shape import CheckpointKind, LogShape
from deltasnap_core.protocol.state.version_checksum import VersionChecksum

FILES, COMMITS = 200, 12
SHAPES: dict[str, dict[str, Any]] = {
    "classic": {},
    "none": {"checkpoint": CheckpointKind.NONE},
    "multi-part": {"checkpoint": CheckpointKind.MULTI_PART, "parts": 3},
    "v2-parquet": {"checkpoint": CheckpointKind.V2_PARQUET, "parts": 2},
    "v2-json": {"checkpoint": CheckpointKind.V2_JSON, "parts": 2},
    "many-partition-columns": {"partition_columns": 40},
    "no-partition-column": {"partition_columns": 0},
    "statistics-as-struct": {"parsed_stats": True},
    "no-statistics": {"stats_columns": 0},
    "mapped-columns": {"mapped": True},
    "deletion-vectors": {"vectors_every": 10},
    "mapped-columns-and-vectors-in-sidecars": {
        "checkpoint": CheckpointKind.V2_JSON,
        "parts": 2,
        "mapped": True,
        "parsed_stats": True,
        "vectors_every": 3,
    },
    "more-removes-than-base-files": {"actions": 40},
}


def shape_of(name: str) -> LogShape:
    return LogShape(files=FILES, tombstones=30, commits=COMMITS, checksums=True, **SHAPES[name])


@pytest.mark.parametrize("name", SHAPES)
def test_generated_table_of_any_shape_is_read_correctly(name: str, tmp_path: Path) -> None:
    shape = shape_of(name)
    table = make_table(shape, tmp_path / "table")
    found = answers.theirs(DeltaTable(table))
    checksum = VersionChecksum.parse((table / f"_delta_log/{shape.last_version:020d}.crc").read_bytes())
    assert (found.version, found.files) == (shape.last_version, shape.live_files)
    assert (found.files, found.size_in_bytes) == (checksum.num_files, checksum.table_size_bytes)


def test_same_shape_produces_the_same_bytes(tmp_path: Path) -> None:
    tables = [make_table(shape_of("v2-json"), tmp_path / name) for name in "ab"]
    files = [
        {path.relative_to(table): path.read_bytes() for path in table.rglob("*") if path.is_file()} for table in tables
    ]
    assert len(files[0]) > 2 * COMMITS
    assert files[0] == files[1]


def test_commits_read_in_blocks_and_separately_yield_the_same_files(tmp_path: Path) -> None:
    shape = LogShape(files=100, tombstones=0, commits=3, actions=20)
    live = set(range(shape.files)) | set(shape.added(0, 2).tolist())
    removed = shape.removed(0, 2)
    assert len(set(removed.tolist())) == len(removed)
    assert len(live - set(removed.tolist())) == shape.live_files
    one_by_one = np.concatenate([shape.removed(number, number) for number in range(3)])
    assert one_by_one.tolist() == removed.tolist()


def test_paths_are_all_different() -> None:
    numbers = np.arange(50_000)
    assert len(set(columns.paths(numbers, 1).to_pylist())) == len(numbers)
    assert len(set(columns.paths(numbers, 100).to_pylist())) == len(numbers)


def test_classic_checkpoint_with_several_parts_is_rejected() -> None:
    with pytest.raises(ValueError, match="one part"):
        LogShape(parts=2)


def test_command_line_creates_a_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", ["maker", str(tmp_path / "table"), "--files", "20", "--checkpoint", "classic"])
    maker.main()
    assert answers.theirs(DeltaTable(tmp_path / "table")).version > 0
