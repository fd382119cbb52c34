"""When the state of a later version is counted from the changes since an earlier one."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from deltasnap_core.log.commits import commit_batch
from deltasnap_core.log.loaded_log import LoadedLog
from deltasnap_core.log.table_log import TableLog
from deltasnap_core.protocol.properties.retention import KEEP_ALL, Retention
from deltasnap_core.replay.known_state import KnownFiles, KnownState
from tests.builders import LOG_PATH, MemoryLogStore, add, metadata, protocol


@pytest.fixture
def store() -> MemoryLogStore:
    store = MemoryLogStore()
    store.put_commit(0, protocol(), metadata())
    for version in (1, 2, 3):
        store.put_commit(version, add(f"f{version}"))
    return store


def load(store: MemoryLogStore, version: int, known: LoadedLog | None = None) -> LoadedLog:
    log = TableLog(store, LOG_PATH)
    return log.loader.load(log.builder.build(version), known)


def known_of(log: LoadedLog, retention: Retention) -> KnownState:
    files = cast(KnownFiles, SimpleNamespace(version=log.version))
    return KnownState(log=log, state=cast(Any, None), retention=retention, files=files, computed_by="driver")


def test_state_advances_to_a_later_version_of_the_same_log(store: MemoryLogStore) -> None:
    known = known_of(first := load(store, 1), Retention.after(100))
    for retention in (Retention.after(100), Retention.after(200)):
        assert known.can_advance_to(load(store, 3, first), retention)


def test_state_advances_neither_to_its_own_version_nor_to_an_earlier_one(store: MemoryLogStore) -> None:
    known = known_of(load(store, 2), KEEP_ALL)
    assert [known.can_advance_to(load(store, version), KEEP_ALL) for version in (1, 2)] == [False, False]


@pytest.mark.parametrize("retention", [KEEP_ALL, Retention.after(99)], ids=repr)
def test_state_does_not_advance_if_expired_tombstones_come_back(store: MemoryLogStore, retention: Retention) -> None:
    known = known_of(first := load(store, 1), Retention.after(100))
    assert not known.can_advance_to(load(store, 2, first), retention)


def test_state_does_not_advance_to_a_log_with_other_commits(store: MemoryLogStore) -> None:
    known = known_of(load(store, 1), KEEP_ALL)
    store.put_commit(1, add("another"))
    assert not known.can_advance_to(load(store, 2), KEEP_ALL)


def test_large_changes_are_not_added_but_counted_again(store: MemoryLogStore, monkeypatch: pytest.MonkeyPatch) -> None:
    known = known_of(first := load(store, 1), KEEP_ALL)
    later = load(store, 2, first)
    monkeypatch.setattr(commit_batch, "LARGE_COMMIT_BYTES", 1)
    assert not known.can_advance_to(later, KEEP_ALL)


def test_changes_since_the_version_of_the_files_count(store: MemoryLogStore, monkeypatch: pytest.MonkeyPatch) -> None:
    store.put_commit(1, *(add(f"f{number}") for number in range(100)))
    known = known_of(first := load(store, 1), KEEP_ALL)
    later = load(store, 2, first)
    monkeypatch.setattr(commit_batch, "LARGE_COMMIT_BYTES", 1_000)
    assert known.can_advance_to(later, KEEP_ALL)
    counted_before = cast(KnownFiles, SimpleNamespace(version=0))
    assert not replace(known, files=counted_before).can_advance_to(later, KEEP_ALL)
