"""Builders for the tests of writable files."""

from __future__ import annotations

from typing import Any

from fsspec.implementations.local import LocalFileSystem


class MountedFileSystem(LocalFileSystem):  # type: ignore[misc]
    """A storage with explicit folders and renames, like HDFS and SFTP."""

    protocol = "mounted"

    @classmethod
    def _strip_protocol(cls, path: Any) -> Any:
        return super()._strip_protocol(path.removeprefix(f"{cls.protocol}://"))
