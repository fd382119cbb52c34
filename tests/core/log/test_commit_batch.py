"""Reading commits: their lines, checked, in memory or by path."""

from __future__ import annotations

import json

import pytest

from deltasnap_core.errors import CorruptLogError
from deltasnap_core.log import commit_batch
from deltasnap_core.log.commit_batch import EMPTY_BATCH, read_commits
from tests.builders import MemoryLogStore, add, commits, content, metadata, remove


def store_with(*lines: bytes, version: int = 0) -> MemoryLogStore:
    store = MemoryLogStore()
    store.put(f"{version:020d}.json", b"\n".join(lines))
    return store


def line(action: object) -> bytes:
    return json.dumps(action, ensure_ascii=False).encode()


def test_read_commits_numbers_lines_and_leaves_blank_ones_out() -> None:
    store = store_with(line(metadata()), b"", b"  \r", line(add("a")), b"")

    batch = read_commits(store, commits(0, 0))

    assert batch.lines["line_number"].to_pylist() == [1, 4]
    assert batch.lines["commit_version"].to_pylist() == [0, 0]


def test_read_commits_of_an_empty_file_gives_no_lines() -> None:
    assert read_commits(store_with(b""), commits(0, 0)).lines.num_rows == 0


def test_read_commits_of_nothing_is_the_empty_batch() -> None:
    assert read_commits(MemoryLogStore(), []) == EMPTY_BATCH


def test_line_separators_inside_strings_do_not_end_a_line() -> None:
    store = store_with(line(add("a\u2028b\u2029c\x85d")))

    assert read_commits(store, commits(0, 0)).lines.num_rows == 1


@pytest.mark.parametrize(
    "broken",
    [
        pytest.param(b'{"add":{"path":"a","size":1', id="truncated"),
        pytest.param(b'["add"]', id="no object"),
        pytest.param(line({"add": {"path": "a", "size": "one"}}), id="mistyped size"),
        pytest.param(line({"add": {"path": "a", "size": 1.5}}), id="fractional size"),
        pytest.param(line({"add": {"size": 1, "partitionValues": {}}}), id="no path"),
        pytest.param(line({"remove": {"deletionTimestamp": 1}}), id="remove without path"),
        pytest.param(line({"add": "a"}), id="no struct"),
        pytest.param(line(add("a", deletionVector={"storageType": "u", "pathOrInlineDv": 3})), id="mistyped vector"),
    ],
)
@pytest.mark.parametrize("is_large", [False, True], ids=["in memory", "streamed"])
def test_a_broken_line_is_an_error_naming_file_and_line(
    broken: bytes, is_large: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if is_large:
        monkeypatch.setattr(commit_batch, "LARGE_COMMIT_BYTES", 0)
    store = store_with(line(metadata()), b"", broken)

    with pytest.raises(CorruptLogError, match=r"00000000000000000000\.json") as caught:
        read_commits(store, commits(0, 0))

    assert caught.value.line == 3


@pytest.mark.parametrize(
    "sound",
    [
        pytest.param(b'{"add":null,"remove":{"path":"a"}}', id="null action"),
        pytest.param(b'{"unknownAction":{"size":"x"}}', id="unknown action"),
        pytest.param(line(add("a", size=2**60)), id="number beyond 2^53"),
        pytest.param(line(add("a", stats={"numRecords": 1})), id="stats as an object"),
        pytest.param(line(add("a", partitionValues={"p": None})), id="null partition value"),
        pytest.param(b'{"cdc":{"path":"c","size":1,"partitionValues":{}}}', id="change data"),
    ],
)
def test_what_a_writer_may_leave_is_no_error(sound: bytes) -> None:
    assert read_commits(store_with(sound), commits(0, 0)).lines.num_rows == 1


def test_a_commit_that_is_no_utf8_is_an_error_naming_the_file() -> None:
    with pytest.raises(CorruptLogError, match="UTF-8"):
        read_commits(store_with(b'{"add":{"path":"\xff"}}'), commits(0, 0))


def test_a_commit_that_is_gone_is_an_error_naming_it() -> None:
    with pytest.raises(CorruptLogError, match=r"00000000000000000001\.json"):
        read_commits(store_with(line(metadata())), commits(0, 1))


def test_a_large_commit_is_not_held_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commit_batch, "LARGE_COMMIT_BYTES", 150)
    store = MemoryLogStore()
    small = store.put("00000000000000000000.json", content([remove("a")]))
    large = store.put("00000000000000000001.json", content([add("a"), add("b")]))

    batch = read_commits(store, [small, large])

    assert batch.large == (large,)
    assert set(batch.lines["commit_version"].to_pylist()) == {0}


def test_batches_are_added_and_cut_by_version() -> None:
    store = MemoryLogStore()
    for version in range(4):
        store.put_commit(version, add(f"file-{version}"))
    files = [store.statuses[file.path] for file in commits(0, 3)]

    batch = read_commits(store, files[:2]) + read_commits(store, files[2:])

    assert batch == read_commits(store, files)
    assert batch.after(1) == read_commits(store, files[2:])
