"""Commits too large for the memory of the driver: read as a stream, only as far as needed."""

from __future__ import annotations

from io import BytesIO
from typing import BinaryIO

import pytest

from deltasnap_core.log.commits import commit_batch
from deltasnap_core.log.commits.commit_reader import read_commits
from deltasnap_core.log.history.delta_history_manager import DeltaHistoryManager
from tests.builders import LOG_PATH, CountingLogStore, MemoryLogStore, add, commit_info, content, metadata, protocol

MIB = 1 << 20


class Watched(BytesIO):
    """A stream that records how far it was read, and the largest read."""

    def __init__(self, data: bytes) -> None:
        super().__init__(data)
        self.most = 0
        self.end = 0

    def read(self, size: int | None = -1, /) -> bytes:
        found = super().read(size)
        self.most = max(self.most, len(found))
        return found

    def close(self) -> None:
        if not self.closed:
            self.end = self.tell()
        super().close()


class WatchedStore(MemoryLogStore):
    """Files in memory whose streams are watched."""

    def __init__(self) -> None:
        super().__init__()
        self.streams: list[Watched] = []

    def open(self, path: str) -> BinaryIO:
        self.streams.append(Watched(self.read_bytes(path)))
        return self.streams[-1]


def large_commit(*first: dict[str, object], size: int) -> bytes:
    return content(first) + content([add("a", tags={"t": "x" * 1000})]) * (size // 1000)


def test_history_reads_only_the_first_line_of_a_large_commit() -> None:
    files = WatchedStore()
    files.put_commit(0, commit_info("CREATE"), protocol(), metadata())
    large = files.put("00000000000000000001.json", large_commit(commit_info("MERGE"), size=4 * MIB))
    store = CountingLogStore(files)

    history = DeltaHistoryManager(store, LOG_PATH, configuration=dict).get_history()

    assert [entry.operation for entry in history] == ["MERGE", "CREATE"]
    assert large.path not in store.reads
    assert [stream.end < MIB for stream in files.streams] == [True]


def test_history_reads_commits_up_to_a_mebibyte_together() -> None:
    files = WatchedStore()
    data = content([commit_info("A")])
    files.put("00000000000000000000.json", data + b" " * (MIB - len(data)))
    files.put("00000000000000000001.json", data + b" " * (MIB - len(data) + 1))
    store = CountingLogStore(files)

    DeltaHistoryManager(store, LOG_PATH, configuration=dict).get_history()

    assert [path[-7:] for path in store.reads] == ["00.json"[-7:]]
    assert [path[-7:] for path in store.opens] == ["01.json"[-7:]]


@pytest.mark.slow
def test_commit_beyond_sixteen_mebibytes_is_checked_in_blocks_and_not_kept() -> None:
    files = WatchedStore()
    small = files.put("00000000000000000000.json", content([protocol(), metadata()]))
    large = files.put("00000000000000000001.json", large_commit(size=20 * MIB))
    store = CountingLogStore(files)

    batch = read_commits(store, [small, large])

    assert batch.large == (large,)
    assert store.reads == [small.path]
    assert [stream.most <= 17 * MIB for stream in files.streams] == [True]


@pytest.mark.parametrize(("size", "is_large"), [(500, False), (501, True)], ids=["at the limit", "beyond"])
def test_commit_beyond_the_limit_is_large(size: int, is_large: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commit_batch, "LARGE_COMMIT_BYTES", 500)
    store = MemoryLogStore()
    data = content([add("a")])
    file = store.put("00000000000000000000.json", data + b" " * (size - len(data)))
    batch = read_commits(store, [file])
    assert batch.large == ((file,) if is_large else ())
    assert batch.is_large is is_large


def test_batch_is_sliced_by_version_including_large_commits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commit_batch, "LARGE_COMMIT_BYTES", 400)
    store = MemoryLogStore()
    files = [store.put_commit(version, *[add("a")] * (1 + 9 * (version % 2))) for version in range(4)]
    batch = read_commits(store, files)
    assert batch.large == (files[1], files[3])
    for version in range(-1, 5):
        older, newer = batch.up_to(version), batch.after(version)
        assert older == read_commits(store, files[: version + 1])
        assert newer == read_commits(store, files[version + 1 :])
        assert older + newer == batch


def test_lines_of_large_and_small_commits_are_in_the_order_of_the_log(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commit_batch, "LARGE_COMMIT_BYTES", 2000)
    store = MemoryLogStore()
    padding = [add("a")] * 30
    files = [store.put_commit(v, commit_info(f"{v}"), metadata(), *(padding if v % 2 else [])) for v in range(4)]
    batch = read_commits(store, files)
    assert batch.large == (files[1], files[3])
    places = list(zip(*(batch.lines[name].to_pylist() for name in ("commit_version", "line_number")), strict=True))
    assert places == sorted(places)
    assert {version for version, _ in places} == {0, 1, 2, 3}


def test_size_of_a_batch_includes_its_lines_and_large_commits(monkeypatch: pytest.MonkeyPatch) -> None:
    store = MemoryLogStore()
    file = store.put_commit(0, add("a"))
    held = read_commits(store, [file])
    monkeypatch.setattr(commit_batch, "LARGE_COMMIT_BYTES", 0)
    assert read_commits(store, [file]).size_in_bytes == file.size
    assert held.size_in_bytes == held.lines["line"].nbytes > 0
