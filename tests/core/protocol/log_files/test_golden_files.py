"""The real files of the golden tables, each read by its module."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

from deltasnap_core.protocol.actions import (
    AddFile,
    CommitInfo,
    DomainMetadata,
    Metadata,
    Protocol,
    RemoveFile,
    SetTransaction,
)
from deltasnap_core.protocol.log_files.file_names import LAST_CHECKPOINT, LogFileKind, ParsedLogPath
from deltasnap_core.protocol.log_files.last_checkpoint_info import LastCheckpointInfo
from deltasnap_core.protocol.state.file_size_histogram import DEFAULT_BIN_BOUNDARIES, FileSizeHistogram
from deltasnap_core.protocol.state.version_checksum import VersionChecksum

ACTIONS: dict[str, Any] = {
    "protocol": Protocol,
    "metaData": Metadata,
    "add": AddFile,
    "remove": RemoveFile,
    "txn": SetTransaction,
    "domainMetadata": DomainMetadata,
    "commitInfo": CommitInfo,
}


def log_files(golden: Path, *kinds: LogFileKind) -> list[Path]:
    found = [(path, ParsedLogPath.parse(path.name)) for path in golden.glob("tables/*/_delta_log/*")]
    return sorted(path for path, parsed in found if parsed is not None and parsed.kind in kinds)


def test_every_action_of_every_commit_is_read_and_written_back(golden: Path) -> None:
    broken, found, changed = [], Counter[str](), []
    for path in log_files(golden, LogFileKind.COMMIT):
        for line in path.read_text(encoding="utf-8").split("\n"):
            try:
                actions = json.loads(line) if line.strip() else {}
            except ValueError:
                broken.append(path)
                continue
            for name, values in actions.items():
                if name in ACTIONS and values is not None:
                    found[name] += 1
                    written = ACTIONS[name].from_json(values).to_json()
                    if without_nulls(values) != without_nulls(written):
                        changed.append((path, name, values, written))
    assert len(broken) == 1  # the only table with a truncated commit
    assert found.total() > 2000
    assert set(found) == set(ACTIONS)
    assert [change for change in changed if change[1] != "commitInfo"] == []
    for _, _, values, written in changed:  # parameters that are not strings are converted to text
        assert set(written) == set(without_nulls(values))


def without_nulls(values: dict[str, Any]) -> dict[str, Any]:
    present = {key: value for key, value in values.items() if value is not None}
    if "deletionVector" in present:
        present["deletionVector"] = without_nulls(present["deletionVector"])
    return present


def test_every_checksum_is_read_or_rejected(golden: Path) -> None:
    read, broken = [], []
    for path in log_files(golden, LogFileKind.CHECKSUM):
        try:
            read.append(VersionChecksum.parse(path.read_bytes()))
        except ValueError:
            broken.append(path)
    assert (len(read), len(broken)) == (52, 1)
    histograms = [checksum for checksum in read if checksum.file_size_histogram]
    assert len(histograms) == 32
    for checksum in histograms:
        histogram = checksum.file_size_histogram
        assert histogram is not None
        assert histogram.sorted_bin_boundaries == DEFAULT_BIN_BOUNDARIES
        assert (sum(histogram.file_counts), sum(histogram.total_bytes)) == (
            checksum.num_files,
            checksum.table_size_bytes,
        )
        if checksum.all_files is not None:
            assert FileSizeHistogram.of_sizes(file.size for file in checksum.all_files) == histogram


def test_every_last_checkpoint_is_read_and_its_checksum_right(golden: Path) -> None:
    read, broken = [], []
    for path in golden.glob(f"tables/*/_delta_log/{LAST_CHECKPOINT}"):
        try:
            read.append(LastCheckpointInfo.parse(path.read_bytes()))
        except ValueError:
            broken.append(path)
    assert [path.stat().st_size for path in broken] == [0]
    assert len([info for info in read if info.checksum is not None]) == 28


def test_every_name_but_the_hint_is_of_a_known_kind_or_ignored(golden: Path) -> None:
    kinds: Counter[LogFileKind] = Counter()
    for path in golden.glob("tables/*/_delta_log/**/*"):
        parsed = ParsedLogPath.parse(path.name)
        if parsed is not None:
            kinds[parsed.kind] += 1
    assert set(kinds) == set(LogFileKind)
