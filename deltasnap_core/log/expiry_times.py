"""Decides which tombstones and transactions have expired at each stored version of a range."""

from __future__ import annotations

from collections.abc import Mapping

from deltasnap_core.log.non_file_actions import NonFileActions
from deltasnap_core.protocol.actions import SetTransaction
from deltasnap_core.protocol.properties.retention import Retention
from deltasnap_core.protocol.properties.table_config import deleted_file_retention_ms


def times_of_expiry(timestamps: Mapping[int, int], now_ms: int) -> dict[int, int]:
    """Return the time (ms) at which expiry is decided for each version: that of its commit.

    So storing a version again gives the same content. A commit with a time in the future counts as committed now: the
    clock of its writer was wrong, and nothing may expire too early.
    """
    return {version: min(timestamp, now_ms) for version, timestamp in timestamps.items()}


def without_expired_transactions(
    states: Mapping[int, NonFileActions], times: Mapping[int, int]
) -> dict[int, NonFileActions]:
    """Return the states of consecutive versions, ascending, without the transactions that expired at `times` (ms).

    An expired transaction never comes back, even if a later version keeps transactions longer.
    """
    found, expired = {}, dict[str, SetTransaction]()
    for version, state in states.items():
        state = state.without_transactions(expired)
        found[version] = kept = state.without_expired_transactions(times[version])
        if kept is not state:
            expired |= {name: txn for name, txn in state.transactions.items() if name not in kept.transactions}
    return found


def retention_at(actions: NonFileActions, time: int) -> Retention:
    """Return which tombstones a version keeps. time: the result of `times_of_expiry`."""
    configuration = actions.metadata.configuration if actions.metadata else {}
    return Retention.after(time - deleted_file_retention_ms(configuration))
