from __future__ import annotations

import json
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

from deltasnap_assets.checks.check import Limits
from deltasnap_assets.checks.commits.schema_unchanged import SchemaUnchanged
from deltasnap_assets.tables.checks.run_facts import HISTORY, facts_of_versions, recent_commit_times, version_facts
from deltasnap_core import SnapshotState
from deltasnap_core.log.history.delta_history_manager import DeltaHistoryManager
from tests.assets.tables.test_metadata import state
from tests.builders import LOG_PATH, MemoryLogStore, commits, mtime_of


def wider() -> SnapshotState:
    metadata = state().metadata
    assert metadata is not None
    schema = json.loads(metadata.schema_string or "")
    schema["fields"].append({"name": "new", "type": "string", "nullable": True, "metadata": {}})
    return state(metadata=replace(metadata, schema_string=json.dumps(schema)))


def test_schema_changes_are_known_for_versions_with_a_known_predecessor() -> None:
    facts = version_facts({3: state(), 4: state(), 5: wider(), 6: state(metadata=None)}, (3, 4, 5, 6))
    assert facts.schema_changes == {4: (), 5: ("column new added (string)",)}


def test_schema_is_compared_with_the_stored_version_before_though_versions_between_are_not_stored() -> None:
    facts = version_facts({3: state(), 7: wider()}, (7,))
    (verdict,) = SchemaUnchanged().verdicts(facts, Limits()).values()
    expected = "A version after 3, up to 7, changed the schema: column new added (string)."
    assert (verdict.passed, verdict.description) == (False, expected)


def test_usual_interval_is_that_of_the_last_commits() -> None:
    history = DeltaHistoryManager(MemoryLogStore(commits(0, 4)), LOG_PATH, configuration=dict)
    found = {most: recent_commit_times(history, most) for most in (1, 4, 5, 6)}
    assert found == {most: [mtime_of(version) for version in range(max(5 - most, 0), 5)] for most in found}


def test_earlier_versions_whose_state_is_unknown_are_left_out() -> None:
    stored = [*range(1, HISTORY + 4)]
    unknown = HISTORY + 1
    snapshots: Any = SimpleNamespace(
        stored_versions=lambda _: stored, state_if_stored=lambda _, version: None if version == unknown else state()
    )
    table: Any = None
    facts = facts_of_versions(snapshots, table, (HISTORY + 2,))
    assert [*facts.states] == [version for version in range(2, HISTORY + 3) if version != unknown]
    assert facts.schema_changes == {HISTORY + 2: ()}
