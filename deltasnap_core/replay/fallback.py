"""Fallback: runs queries over a version, again without its checkpoint if they find the checkpoint damaged."""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock
from typing import Generic, Protocol, Self, TypeVar

from deltasnap_core.errors import CorruptLogError, UnsupportedServerError


class Readable(Protocol):
    """An immutable version that a query reads."""

    def without(self, error: CorruptLogError | UnsupportedServerError) -> Self:
        """Return the same version without what a query could not read. Errors: the given error if nothing replaces it.

        error: of the query.
        """
        ...


V_co = TypeVar("V_co", bound=Readable, covariant=True)
T = TypeVar("T")


class Fallback(Generic[V_co]):
    """A version as far as it can be read: without what queries found damaged. Threads may share it.

    This is the only state that changes when a query meets damage: later queries do not read the damaged file again.
    """

    def __init__(self, version: V_co) -> None:
        self._version = version
        self._lock = Lock()

    @property
    def version(self) -> V_co:
        """The version without what was found damaged so far."""
        return self._version

    def run(self, query: Callable[[V_co], T]) -> T:
        """Return the result of a query, over the version without what the query finds damaged.

        Errors: CorruptLogError naming the file, if nothing can replace it; UnsupportedServerError if Spark lacks its
        codec.
        """
        while True:
            version = self._version
            try:
                return query(version)
            except (CorruptLogError, UnsupportedServerError) as error:
                with self._lock:
                    if self._version is version:  # otherwise another thread replaced it already
                        self._version = version.without(error)
