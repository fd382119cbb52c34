"""A catalog-managed table whose newest commits are ratified, but not published."""

from __future__ import annotations

from pathlib import Path

from deltasnap_core import FileStatus
from deltasnap_core.protocol.log_files.file_names import STAGED_COMMIT_FOLDER
from tests.builders import (
    FIRST_COMMIT_MS,
    UUIDS,
    add,
    commit_info,
    content,
    metadata,
    protocol,
    staged_commit_file,
    write_log,
)

FILES = ("a.parquet", "b.parquet", "c.parquet")
"""The file that each version adds."""


def write_catalog_managed(table: Path, *, feature: str = "catalogManaged") -> list[FileStatus]:
    """Write a table whose catalog ratified the versions 1 and 2. Return these commits, the log tail."""
    managed = protocol(3, 7, readerFeatures=[feature], writerFeatures=[feature, "inCommitTimestamp"])
    timed = metadata(configuration={"delta.enableInCommitTimestamps": "true"})
    commits = [[commit_info(inCommitTimestamp=FIRST_COMMIT_MS + v), add(name)] for v, name in enumerate(FILES)]
    log = write_log(table, {0: [*commits[0][:1], managed, timed, *commits[0][1:]]})
    tail = []
    for version in (1, 2):
        file = log / STAGED_COMMIT_FOLDER / staged_commit_file(version, UUIDS[version])
        file.parent.mkdir(exist_ok=True)
        file.write_bytes(content(commits[version]))
        status = file.stat()
        tail.append(FileStatus(path=f"file://{file}", size=status.st_size, modification_time=FIRST_COMMIT_MS + version))
    return tail
