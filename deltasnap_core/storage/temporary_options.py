"""Storage options with temporary credentials, which are fetched again before they expire."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from copy import copy
from threading import Lock
from typing import Any

from deltasnap_core.clock import Clock, system_clock
from deltasnap_core.redaction import learn_options

_MARGIN_MS = 5 * 60 * 1000
"""Credentials are replaced this long before they expire: a request that uses them may take minutes."""

Fetch = Callable[[], tuple[Mapping[str, Any], int]]
"""Returns storage options, and when they expire, in ms since the epoch."""


class TemporaryOptions(Mapping[str, Any]):
    """Storage options that are valid whenever they are read. Threads may share them.

    Objects that read them often keep this object, not a copy: see `options_to_keep`. The errors of `fetch` reach each
    reader. A comparison fetches nothing: equal objects have the same source.
    """

    def __init__(self, fetch: Fetch, clock: Clock = system_clock) -> None:
        """Create options; nothing is fetched yet."""
        self._fetch, self._clock = fetch, clock
        self._fetched: Mapping[str, Any] = {}
        self._until_ms = 0
        self._lock = Lock()
        self._own: Mapping[str, Any] = {}
        self._source = self

    def with_own(self, own: Mapping[str, Any]) -> TemporaryOptions:
        """Return the same options with others that replace them and do not expire."""
        found = copy(self)
        found._own = {**self._own, **own}
        learn_options(own)
        return found

    def __getitem__(self, name: str) -> Any:
        return self._current()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._current())

    def __len__(self) -> int:
        return len(self._current())

    def __repr__(self) -> str:
        return "TemporaryOptions(...)"

    def __eq__(self, other: object) -> bool:
        is_same = isinstance(other, TemporaryOptions) and self._source is other._source
        return is_same and self._own == other._own  # type: ignore[attr-defined]

    def __hash__(self) -> int:
        return id(self._source)

    def _current(self) -> dict[str, Any]:
        return {**self._source._latest(), **self._own}

    def _latest(self) -> Mapping[str, Any]:
        """Return the options of the source. Short-lived ones are replaced after half of their life."""
        with self._lock:
            now = self._clock()
            if now >= self._until_ms:
                self._fetched, expires_ms = self._fetch()
                learn_options(self._fetched)
                self._until_ms = expires_ms - min(_MARGIN_MS, (expires_ms - now) // 2)
            return self._fetched


def with_own_options(options: Mapping[str, Any], own: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return options with others that replace them."""
    return options.with_own(own) if isinstance(options, TemporaryOptions) else {**options, **own}


def key_of_options(options: Mapping[str, Any] | None) -> object:
    """Return a hashable value that is equal for equal options."""
    return options if isinstance(options, TemporaryOptions) else repr(sorted((options or {}).items()))


def options_to_keep(options: Mapping[str, Any] | None) -> Mapping[str, Any]:
    """Return options for an object that outlives the call: temporary ones as they are, a copy of others."""
    if isinstance(options, TemporaryOptions):
        return options
    learn_options(options or {})
    return dict(options or {})
