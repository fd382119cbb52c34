"""Protocol, metadata, transactions and domains: the newest wins, without Spark."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from deltasnap_core.errors import CorruptLogError
from deltasnap_core.log.commits.commit_batch import CommitBatch
from deltasnap_core.log.commits.commit_reader import read_commits
from deltasnap_core.log.non_file_actions import NonFileActions, load_non_file_actions, non_file_actions_by_version
from tests.builders import Action, MemoryLogStore, add, metadata, protocol


def txn(app: str, version: int, last_updated: int | None = None) -> Action:
    return {"txn": {"appId": app, "version": version, "lastUpdated": last_updated}}


def domain(name: str, configuration: str, *, removed: bool = False) -> Action:
    return {"domainMetadata": {"domain": name, "configuration": configuration, "removed": removed}}


def batch_of(*commits: list[Action]) -> tuple[MemoryLogStore, CommitBatch]:
    store = MemoryLogStore()
    files = [store.put_commit(version, *actions) for version, actions in enumerate(commits)]
    return store, read_commits(store, files)


def loaded(*commits: list[Action]) -> Any:
    store, batch = batch_of(*commits)
    return load_non_file_actions(store, None, batch)


def test_the_newest_protocol_wins_even_if_it_is_lower() -> None:
    assert loaded([protocol(3, 7), metadata()], [protocol(1, 2)]).protocol.min_reader_version == 1


def test_the_latest_transaction_wins_even_if_its_version_is_lower() -> None:
    assert loaded([txn("a", 9)], [txn("a", 3), txn("b", 1)]).transactions["a"].version == 3


def test_within_a_commit_the_later_line_wins() -> None:
    assert loaded([txn("a", 1), txn("a", 2)]).transactions["a"].version == 2


def test_action_that_a_commit_has_twice_is_reported_when_it_is_read(caplog: pytest.LogCaptureFixture) -> None:
    loaded([protocol(), metadata()], [protocol(), metadata()])
    assert not caplog.messages
    found = loaded([protocol(1, 7), metadata(table_id="a"), protocol(1, 2), metadata(table_id="b")])
    assert (found.protocol.min_writer_version, found.metadata.id) == (2, "b")
    for name, message in zip(("protocol", "metaData"), caplog.messages, strict=True):
        assert f"{0:020d}.json has 2 {name} actions" in message


def test_a_removed_domain_is_omitted_and_can_be_added_again() -> None:
    commits = [[domain("d", "1")], [domain("d", "", removed=True)]]

    assert loaded(*commits).domains == {}
    assert loaded(*commits, [domain("d", "2")]).domains["d"].configuration == "2"


def test_names_of_actions_inside_strings_are_not_actions() -> None:
    assert loaded([add("a", stats='{"minValues":{"protocol":1,"txn":2}}')]).protocol is None


def test_newest_actions_are_rows_of_one_action_each() -> None:
    found = loaded([protocol(), metadata(), txn("a", 1, 5), domain("d", "{}"), domain("e", "", removed=True)])
    assert [*found.rows()] == [
        protocol(),
        metadata(),
        {"txn": {"appId": "a", "version": 1, "lastUpdated": 5}},
        {"domainMetadata": {"domain": "d", "configuration": "{}", "removed": False}},
    ]
    assert [*NonFileActions().rows()] == []


def test_transactions_expire_at_their_retention() -> None:
    kept = metadata(configuration={"delta.setTransactionRetentionDuration": "interval 1 minute"})
    found = loaded([kept, txn("old", 1, 40_000), txn("new", 1, 40_001), txn("never", 1)])
    assert [*found.without_expired_transactions(100_000).transactions] == ["new"]
    assert loaded([metadata(), txn("old", 1, 0)]).without_expired_transactions(100_000).transactions
    assert loaded([txn("old", 1, 0)]).without_expired_transactions(100_000).transactions


def test_only_the_same_transactions_are_dropped() -> None:
    found = loaded([txn("a", 1), txn("b", 1)])
    dropped = {"a": found.transactions["a"], "b": replace(found.transactions["b"])}
    assert [*found.without_transactions(dropped).transactions] == ["b"]
    assert found.without_transactions({}) is found


def test_actions_are_grouped_by_version_in_the_order_of_the_log() -> None:
    _, batch = batch_of([txn("a", 1), domain("d", "1")], [add("x")], [txn("a", 2)])

    by_version = non_file_actions_by_version(batch)

    assert {version: len(actions) for version, actions in by_version.items()} == {0: 2, 2: 1}


def test_a_mistyped_action_raises_an_error_that_names_file_and_line() -> None:
    with pytest.raises(CorruptLogError, match="00000000000000000001") as caught:
        loaded([metadata()], [add("a"), {"protocol": {"minReaderVersion": "one"}}])

    assert caught.value.line == 2
