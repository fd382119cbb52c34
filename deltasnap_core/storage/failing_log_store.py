"""A LogStore of a table whose folder is unknown."""

from __future__ import annotations

from typing import Never

from deltasnap_core.errors import StorageError


class FailingLogStore:
    """A LogStore whose methods all raise one error, so that a log that cannot be found is a log that cannot be read."""

    def __init__(self, error: StorageError) -> None:
        self._error = error

    def _fail(self, *_: object, **__: object) -> Never:
        raise self._error

    list_from = lists_from_name = status = read_bytes = read_many = open = _fail
