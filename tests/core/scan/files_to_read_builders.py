"""Builders for the tests of files to read."""

from __future__ import annotations

from typing import Any

from deltasnap_core.replay.spark.session.spark_files import SparkFiles
from deltasnap_core.storage.log_store import FileStatus


class Copies(SparkFiles):
    """Files that Spark reads as copies. It records what was requested."""

    def __init__(self, failure: Exception | None = None) -> None:
        super().__init__(None, lambda url: True)
        self.asked: list[FileStatus] = []
        self.failure = failure

    def readable(self, files: Any) -> list[str]:
        if self.failure is not None:
            raise self.failure
        self.asked += files
        return [f"file:///copy/{number}" for number, _ in enumerate(files)]
