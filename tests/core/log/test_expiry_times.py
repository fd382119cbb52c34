"""What has expired at each stored version of a range."""

from __future__ import annotations

from deltasnap_core.log.expiry_times import retention_at, times_of_expiry, without_expired_transactions
from deltasnap_core.log.non_file_actions import NonFileActions
from deltasnap_core.protocol.actions import Metadata, SetTransaction

DAY_MS = 24 * 60 * 60 * 1000


def actions(*transactions: SetTransaction, **configuration: str) -> NonFileActions:
    metadata = Metadata(id="table-id", configuration={f"delta.{key}": value for key, value in configuration.items()})
    return NonFileActions(metadata=metadata, transactions={each.app_id: each for each in transactions})


def test_each_version_decides_at_the_time_of_its_commit_but_not_in_the_future() -> None:
    assert times_of_expiry({1: 10, 2: 30, 3: 20}, now_ms=25) == {1: 10, 2: 25, 3: 20}


def test_tombstones_are_kept_as_long_as_the_property_of_the_version_says() -> None:
    two_days = actions(deletedFileRetentionDuration="interval 2 days")
    assert retention_at(two_days, 10 * DAY_MS).expired_until == 8 * DAY_MS
    for default in (actions(), NonFileActions()):
        assert retention_at(default, 10 * DAY_MS).expired_until == 3 * DAY_MS


def test_transaction_expires_when_it_reaches_the_retention_and_does_not_come_back() -> None:
    old, new = (
        SetTransaction(app_id="old", version=1, last_updated=DAY_MS),
        SetTransaction(app_id="new", version=1, last_updated=DAY_MS + 1),
    )
    one_day = {"setTransactionRetentionDuration": "interval 1 day"}
    states = {5: actions(old, new, **one_day), 6: actions(old, new)}
    found = without_expired_transactions(states, {5: 2 * DAY_MS, 6: 2 * DAY_MS})
    assert [sorted(state.transactions) for state in found.values()] == [["new"], ["new"]]


def test_transaction_without_a_time_expires_even_if_the_retention_reaches_back_before_1970() -> None:
    timed, untimed = SetTransaction(app_id="a", version=1, last_updated=0), SetTransaction(app_id="b", version=1)
    state = actions(timed, untimed, setTransactionRetentionDuration="interval 3 days")
    assert [*state.without_expired_transactions(2 * DAY_MS).transactions] == ["a"]


def test_transaction_that_is_set_again_counts_again() -> None:
    old, again = (
        SetTransaction(app_id="a", version=1, last_updated=0),
        SetTransaction(app_id="a", version=2, last_updated=3 * DAY_MS),
    )
    one_day = {"setTransactionRetentionDuration": "interval 1 day"}
    states = {5: actions(old, **one_day), 6: actions(again, **one_day)}
    found = without_expired_transactions(states, {5: 2 * DAY_MS, 6: 3 * DAY_MS})
    assert [list(state.transactions.values()) for state in found.values()] == [[], [again]]
