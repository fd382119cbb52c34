"""Simulates a process that is killed at a chosen step of writing into a store."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from deltasnap_core.storage.log_store import FileStatus
from deltasnap_core.storage.writable_files import WritableFiles


class KilledError(BaseException):
    """A kill, which the code under test must not catch."""


class MortalFiles(WritableFiles):
    """Files of a process that is killed before its n-th step: a write, a move, or a check of Spark's output."""

    def __init__(self, root: str, steps: int, storage_options: Mapping[str, Any] | None = None) -> None:
        super().__init__(root, storage_options)
        self.steps = steps

    def _step(self) -> None:
        self.steps -= 1
        if self.steps < 0:
            raise KilledError

    def write(self, path: str, content: bytes) -> None:
        self._step()
        super().write(path, content)

    def move(self, source: str, target: str) -> None:
        self._step()
        super().move(source, target)

    def walk(self, folder: str) -> list[FileStatus]:
        self._step()
        return super().walk(folder)
