"""Simulates a process that is killed at a chosen step of changing a storage."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from deltasnap_core.storage.log_store import FileStatus
from deltasnap_core.storage.writable_files import WritableFiles


class KilledError(BaseException):
    """A kill, which the code under test must not catch."""


class MortalFiles(WritableFiles):
    """Files of a process that is killed at its n-th step: a change of the storage, or a check of Spark's output.

    steps: those before it. after: whether that step is done, too. Later ones have no effect.
    """

    def __init__(
        self, root: str, storage_options: Mapping[str, Any] | None = None, *, steps: int, after: bool = False
    ) -> None:
        super().__init__(root, storage_options)
        self._steps = steps
        self._after = after
        self.is_dead = False

    def write(self, path: str, content: bytes) -> None:
        self._step(lambda: super(MortalFiles, self).write(path, content))

    def move(self, source: str, target: str) -> None:
        self._step(lambda: super(MortalFiles, self).move(source, target))

    def move_new(self, source: str, target: str) -> bool:
        return bool(self._step(lambda: super(MortalFiles, self).move_new(source, target)))

    def delete(self, paths: Iterable[str]) -> None:
        self._step(lambda: super(MortalFiles, self).delete(paths))

    def delete_folder(self, folder: str) -> None:
        self._step(lambda: super(MortalFiles, self).delete_folder(folder))

    def walk(self, folder: str) -> list[FileStatus]:  # right after Spark wrote
        return list(self._step(lambda: super(MortalFiles, self).walk(folder)))

    def _step(self, work: Callable[[], Any]) -> Any:
        self._steps -= 1
        is_last, was_dead = self._steps < 0, self.is_dead
        self.is_dead = is_last
        result = None if was_dead or (is_last and not self._after) else work()
        if is_last:
            raise KilledError
        return result
