"""Builders for the tests of delta history manager."""

from __future__ import annotations

from deltasnap_core.log.history.delta_history_manager import DeltaHistoryManager
from tests.builders import LOG_PATH, Action, MemoryLogStore, commit_info


def log_of(*actions: tuple[Action, ...], mtimes: dict[int, int] | None = None) -> MemoryLogStore:
    """A log with one commit for each tuple, from version 0 on."""
    store = MemoryLogStore()
    for version, commit in enumerate(actions):
        store.put_commit(version, *commit, mtime=(mtimes or {}).get(version))
    return store


def manager_of(*actions: tuple[Action, ...], mtimes: dict[int, int] | None = None) -> DeltaHistoryManager:
    return DeltaHistoryManager(log_of(*actions, mtimes=mtimes), LOG_PATH)


def log_with_mtimes(*mtimes: int) -> MemoryLogStore:
    return log_of(*[(commit_info(),) for _ in mtimes], mtimes=dict(enumerate(mtimes)))


def by_mtimes(*mtimes: int) -> DeltaHistoryManager:
    return DeltaHistoryManager(log_with_mtimes(*mtimes), LOG_PATH)
