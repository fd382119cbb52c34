"""The condition of a table that is not there, or that cannot be reached."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from deltasnap_core import FileStatus, ProblemKind, TableLog
from deltasnap_core.errors import StorageError
from deltasnap_core.protocol.log_files.file_names import commit_file
from tests.builders import LOG_PATH, MemoryLogStore
from tests.core.log.condition.table_condition_builders import condition, make_log


def _drop(table: Path) -> Path:
    shutil.rmtree(table)
    return table


def _drop_log(table: Path) -> Path:
    shutil.rmtree(table / "_delta_log")
    return table


def _empty_log(table: Path) -> Path:
    for file in (table / "_delta_log").iterdir():
        file.unlink()
    return table


@pytest.mark.parametrize(
    ("broken", "reason"),
    [
        (_drop, "no such folder"),
        (_drop_log, "the folder has no _delta_log"),
        (_empty_log, "neither a commit nor a checkpoint"),
        (lambda table: table / "_delta_log", "names a log folder"),
        (lambda table: table / "_delta_log" / commit_file(0), "names a file"),
    ],
    ids=["dropped", "no log", "empty log", "log folder", "file"],
)
def test_condition_of_a_path_without_a_table_has_a_reason(
    tmp_path: Path, broken: Callable[[Path], Path], reason: str
) -> None:
    make_log(tmp_path / "t", 1)
    found = condition(broken(tmp_path / "t"))
    (fault,) = found.faults
    assert (fault.kind, found.mark, found.latest) == (ProblemKind.NO_TABLE, "error", None)
    assert reason in fault.text
    assert fault.advice


@pytest.mark.parametrize(
    ("cause", "reason", "kind"),
    [
        (PermissionError(13, "Permission denied"), "Permission denied", ProblemKind.ACCESS_DENIED),
        (OSError(), "An error occurred (403) when calling ListObjectsV2: Forbidden", ProblemKind.ACCESS_DENIED),
        (OSError(), "Unable to locate credentials", ProblemKind.ACCESS_DENIED),
        (OSError(), "Server failed to authenticate the request (AuthorizationFailure)", ProblemKind.ACCESS_DENIED),
        (OSError(), "Connection reset by peer", ProblemKind.STORAGE_FAILED),
    ],
    ids=["local", "403", "no credentials", "Azure", "network"],
)
def test_condition_distinguishes_denied_access_from_failed_storage(
    cause: OSError, reason: str, kind: ProblemKind
) -> None:
    class RefusingStore(MemoryLogStore):
        def list_from(self, path: str) -> Iterator[FileStatus]:
            raise StorageError(path="s3://key:secret@lake/t", reason=reason) from cause

    (fault,) = TableLog(RefusingStore(), LOG_PATH).condition().faults
    assert (fault.kind, fault.mark) == (kind, "error")
    assert reason in fault.text
    assert "secret@" not in fault.text
    assert fault.advice


def test_condition_of_an_unknown_scheme_does_not_advise_to_try_again() -> None:
    (fault,) = TableLog.for_path("foo://lake/t").condition().faults
    assert fault.kind == ProblemKind.STORAGE_FAILED
    assert (
        fault.advice
        == "Correct the scheme of the path or the storage options, or install the package of the filesystem."
    )
