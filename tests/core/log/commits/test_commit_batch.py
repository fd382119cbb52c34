"""Reading commits: validated lines, in memory or by path."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from unittest.mock import Mock

import pytest

from deltasnap_core.errors import CorruptLogError
from deltasnap_core.log.commits import action_lines, commit_batch, commit_pieces, commit_reader
from deltasnap_core.log.commits.commit_batch import EMPTY_BATCH, ChangedFile
from deltasnap_core.log.commits.commit_reader import read_commits
from deltasnap_core.log.commits.commit_scan import read_commit_infos
from deltasnap_core.protocol.log_files.file_names import commit_file
from tests.builders import CountingLogStore, MemoryLogStore, add, commit_info, commits, content, metadata, remove


def store_with(*lines: bytes, version: int = 0) -> MemoryLogStore:
    store = MemoryLogStore()
    store.put(f"{version:020d}.json", b"\n".join(lines))
    return store


def line(action: object) -> bytes:
    return json.dumps(action, ensure_ascii=False).encode()


def test_read_commits_numbers_lines_and_skips_blank_ones() -> None:
    store = store_with(line(metadata()), b"", b"  \r", line(add("a")), b"")

    batch = read_commits(store, commits(0, 0))

    assert batch.lines["line_number"].to_pylist() == [1, 4]
    assert batch.lines["commit_version"].to_pylist() == [0, 0]


def test_read_commits_of_an_empty_file_returns_no_lines() -> None:
    assert read_commits(store_with(b""), commits(0, 0)).lines.num_rows == 0


def test_read_commits_without_files_returns_an_empty_batch() -> None:
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
def test_broken_line_is_an_error_with_file_and_line(
    broken: bytes, is_large: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if is_large:
        monkeypatch.setattr(commit_batch, "LARGE_COMMIT_BYTES", 0)
    store = store_with(line(metadata()), b"", broken)

    with pytest.raises(CorruptLogError, match=r"00000000000000000000\.json") as caught:
        read_commits(store, commits(0, 0))

    assert caught.value.line == 3


def test_file_actions_are_too_many_to_hold_if_those_of_one_batch_are() -> None:
    unheld = replace(EMPTY_BATCH, large_measures=None)
    assert [(EMPTY_BATCH + unheld).large_measures, (unheld + EMPTY_BATCH).large_measures] == [None, None]


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
def test_leftovers_of_a_writer_are_not_an_error(sound: bytes) -> None:
    assert read_commits(store_with(sound), commits(0, 0)).lines.num_rows == 1


def test_a_commit_that_is_not_utf8_raises_an_error_that_names_the_file() -> None:
    with pytest.raises(CorruptLogError, match="UTF-8"):
        read_commits(store_with(b'{"add":{"path":"\xff"}}'), commits(0, 0))


def test_a_large_commit_is_not_kept_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commit_batch, "LARGE_COMMIT_BYTES", 150)
    store = MemoryLogStore()
    small = store.put("00000000000000000000.json", content([remove("a")]))
    large = store.put("00000000000000000001.json", content([add("a"), add("b")]))

    batch = read_commits(store, [small, large])

    assert batch.large == (large,)
    assert set(batch.lines["commit_version"].to_pylist()) == {0}


def test_batches_are_concatenated_and_sliced_by_version() -> None:
    store = MemoryLogStore()
    for version in range(4):
        store.put_commit(version, add(f"file-{version}"))
    files = [store.statuses[file.path] for file in commits(0, 3)]

    batch = read_commits(store, files[:2]) + read_commits(store, files[2:])

    assert batch == read_commits(store, files)
    assert batch.after(1) == read_commits(store, files[2:])


@pytest.fixture(params=[False, True], ids=["in memory", "streamed"])
def streamed(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    if request.param:
        monkeypatch.setattr(commit_batch, "LARGE_COMMIT_BYTES", 0)
        monkeypatch.setattr(commit_pieces, "PIECE_BYTES", 64)
    return bool(request.param)


def test_one_read_returns_provenance_sample_count_and_digest_of_each_commit(streamed: bool) -> None:
    memory = MemoryLogStore()
    store = CountingLogStore(memory)
    files = [
        memory.put_commit(0, commit_info("A"), metadata(), add("a", size=5), commit_info("B"), remove("b")),
        memory.put_commit(1, *(add(f"f{n}") for n in range(30))),
    ]

    batch = read_commits(store, files)

    assert {v: info and info.operation for v, info in batch.commit_infos().items()} == {0: "A", 1: None}
    assert batch.samples(5)[0] == (
        ChangedFile(change="+", path="a", size=5),
        ChangedFile(change="-", path="b", size=None),
    )
    assert [file.path for file in batch.samples(3)[1]] == ["f0", "f1", "f2"]
    assert (batch.num_file_actions, [commit.file_actions for commit in batch.commits]) == (32, [2, 30])
    assert batch.digests == {v: hashlib.sha256(memory.contents[files[v].path]).hexdigest() for v in (0, 1)}
    assert batch.lines_with("commitInfo")["line_number"].to_pylist() == [1, 4]
    assert len(store.reads) + len(store.opens) == 2
    assert bool(batch.large) is streamed


def test_a_missing_commit_raises_an_error_that_names_it(streamed: bool) -> None:
    with pytest.raises(CorruptLogError, match=r"00000000000000000001\.json"):
        read_commits(store_with(line(metadata())), commits(0, 1))


def test_a_commit_that_is_missing_only_while_it_is_read_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    store = store_with(line(metadata()))
    monkeypatch.setattr(store, "read_many", Mock(side_effect=FileNotFoundError))
    with pytest.raises(CorruptLogError, match=r"00000000000000000000\.json"):
        read_commits(store, commits(0, 0))


def test_a_large_commit_with_an_unusual_line_is_kept_as_a_regular_commit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commit_batch, "LARGE_COMMIT_BYTES", 0)
    store = store_with(line(add("a")), b'{"add":{"path":"b","size":1e3}}', version=1)
    first, last = store.put_commit(0, add("c"), add("d")), store.put_commit(2, remove("a"))

    batch = read_commits(store, [store.statuses[file.path] for file in commits(0, 2)])

    assert batch.large == (first, last)
    assert batch.samples(5)[1][1].size == 1000
    assert batch.lines["commit_version"].to_pylist() == [1, 1]
    assert [(commit.version, commit.file_actions) for commit in batch.commits] == [(0, 2), (1, 2), (2, 1)]
    assert batch.measures is not None
    assert sorted(batch.measures["commit_version"].to_pylist()) == [0, 0, 1, 1, 2]


def test_an_unusual_line_of_a_commit_too_large_to_hold_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commit_reader, "IN_MEMORY_BYTES", 0)
    store = store_with(line(add("a")), b"", b'{"add":{"path":"b","size":1e3}}')

    with pytest.raises(CorruptLogError, match="usual form") as caught:
        read_commits(store, list(store.statuses.values()))

    assert caught.value.line == 3


def test_an_endless_line_is_read_only_up_to_the_maximum_length(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commit_batch, "LARGE_COMMIT_BYTES", 0)
    monkeypatch.setattr(commit_pieces, "PIECE_BYTES", 64)
    monkeypatch.setattr(action_lines, "MAX_LINE_BYTES", 200)
    store = store_with(line(add("a")), b'{"foo":"' + b"x" * 10_000)

    with pytest.raises(CorruptLogError, match="200 bytes") as caught:
        read_commits(store, list(store.statuses.values()))

    assert caught.value.line == 2


def test_history_finds_an_escaped_commit_info_and_nothing_else(streamed: bool) -> None:
    store = MemoryLogStore()
    trap = add("x", stats='{"commitInfo":{"operation":"NO"}}')
    escaped = b'{"commit\\u0049nfo":{"operation":"YES","inCommitTimestamp":1e3}}'
    file = store.put("00000000000000000000.json", content([trap] * 20) + escaped)

    ((_, info),) = read_commit_infos(store, [file])

    assert info is not None
    assert (info.operation, info.in_commit_timestamp) == ("YES", 1000)


def test_small_commits_are_parsed_together_up_to_a_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commit_pieces, "PIECE_BYTES", 10)
    monkeypatch.setattr(commit_batch, "LARGE_COMMIT_BYTES", 10)
    store = MemoryLogStore()
    files = [store.put(commit_file(version), b"x" * size) for version, size in enumerate([4, 4, 4, 4, 10, 1])]
    pieces = [[*contents] for _, contents in commit_pieces.pieces_of(store, files)]
    assert pieces == [[0, 1, 2], [3, 4], [5]]
