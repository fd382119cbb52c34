from __future__ import annotations

from typing import Any

import pytest

from deltasnap_core.log.commits import commit_batch
from deltasnap_core.log.commits.commit_batch import ChangedFile
from deltasnap_core.log.commits.commit_reader import digest_of_file, read_commits
from deltasnap_core.log.commits.commit_summary import CommitSummary, summaries
from deltasnap_core.protocol.commit_info import CommitInfo
from tests.builders import CountingLogStore, MemoryLogStore, add, commit_info, content, remove


def summary_of(*actions: dict[str, Any]) -> CommitSummary:
    store = MemoryLogStore()
    return summaries(read_commits(store, [store.put_commit(3, *actions)]))[3]


def test_sample_is_the_first_files_of_a_commit() -> None:
    files = [add("a", size=2048), remove("c"), *(add(f"d{n}") for n in range(9))]
    assert summary_of(commit_info(), *files).sample == (
        ChangedFile(change="+", path="a", size=2048),
        ChangedFile(change="-", path="c", size=None),
        *(ChangedFile(change="+", path=f"d{n}", size=1) for n in range(3)),
    )


def test_commit_without_info_has_none() -> None:
    assert summary_of(add("a")).info is None


def test_summary_round_trips_through_json() -> None:
    found = summary_of(
        commit_info("MERGE", userName="ada", operationParameters={"mode": "Append"}, operationMetrics={"rows": "1"}),
        add("a"),
        remove("b"),
    )
    assert found.info == CommitInfo(
        timestamp=1_700_000_000_000,
        operation="MERGE",
        user_name="ada",
        operation_parameters={"mode": "Append"},
        operation_metrics={"rows": "1"},
    )
    assert CommitSummary.from_json(found.to_json()) == found
    assert CommitSummary.from_json(CommitSummary(info=None).to_json()) == CommitSummary(info=None)


def test_summary_has_a_limited_size() -> None:
    found = summary_of(
        commit_info(
            "x" * 10**5,
            operationParameters={f"{n}": "y" * 10**4 for n in range(200)},
            tags={"a": "b"},
            job={"jobId": "1", "runId": 7, **{f"{n}": "z" * 10**4 for n in range(200)}},
            notebook={"notebookId": "2"},
            own="z" * 10**5,
        ),
        add("p" * 10**4),
    )
    assert found.info is not None
    assert found.info.operation == "x" * 1999 + "…"
    assert list(found.info.operation_parameters or {}) == [str(n) for n in range(50)]
    assert (found.info.tags, found.info.extra) == (None, {})
    assert found.info.notebook == {"notebookId": "2"}
    assert found.info.job is not None
    assert (found.info.job["runId"], found.info.job["0"], len(found.info.job)) == ("7", "z" * 1999 + "…", 50)
    assert len(found.sample[0].path) == 2000


def test_batch_is_summarized_without_another_read() -> None:
    store = CountingLogStore(memory := MemoryLogStore())
    files = [memory.put_commit(version, commit_info(f"OP{version}"), add(f"f{version}")) for version in range(30)]
    batch = read_commits(store, files)
    store.reset()
    found = summaries(batch)
    assert [info and info.operation for info in (found[v].info for v in range(30))] == [f"OP{v}" for v in range(30)]
    assert [found[v].sample[0].path for v in range(30)] == [f"f{v}" for v in range(30)]
    assert store.calls == 0


def test_digests_match_the_bytes_of_small_and_large_commits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commit_batch, "LARGE_COMMIT_BYTES", 200)
    store = MemoryLogStore()
    files = [
        store.put("00000000000000000000.json", content([add("a")]) + b"\n\n"),
        store.put_commit(1, commit_info("LARGE", notes="x" * 300), add("b")),
    ]
    batch = read_commits(store, files)
    assert [file.name for file in batch.large] == [files[1].name]
    assert batch.digests == {v: digest_of_file(store, file.path) for v, file in enumerate(files)}
    found = summaries(batch)
    assert found[1].info is not None
    assert (found[1].info.operation, found[1].sample[0].path) == ("LARGE", "b")
