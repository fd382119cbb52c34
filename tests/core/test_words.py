"""The words for kinds and conditions: users write them in settings, and read them in tables and JSON."""

from __future__ import annotations

from enum import Enum

import pytest

from deltasnap_core.log.condition.problem_kinds import ProblemKind
from deltasnap_core.protocol.log_files.file_names import CheckpointKind, LogFileKind
from deltasnap_core.store.fleet.table_level import TableLevel

WORDS: dict[type[Enum], str] = {
    ProblemKind: (
        "no_table, access_denied, storage_failed, catalog_failed, missing_commit, unneeded_commit, corrupt_commit, "
        "empty_commit, missing_action, unsupported_protocol, invalid_protocol, broken_schema, unsupported_type_change, "
        "corrupt_checkpoint, wrong_checkpoint, broken_hint, wrong_checksum, lost_versions, "
        "unpublished_commit, repeated_metadata, repeated_protocol, repeated_transaction, repeated_domain_metadata, "
        "repeated_add, repeated_remove, contradictory_commit, repeated_partition_column, decreasing_timestamp, "
        "future_timestamp, incomplete_enablement, negative_number, failed_check, unread_facts, failed_run, "
        "no_wanted_version, stale, future_commit, damaged_store, lost_manifest, lost_files, unshared_store, "
        "unreadable_store, later_store, damaged_status, lost_status, other_table, never_polled, old_poll, future_poll, "
        "old_examination, never_checked, unchecked_versions, not_followed, lost_table"
    ),
    CheckpointKind: "classic, multipart, uuid",
    LogFileKind: "commit, staged commit, checkpoint, log compaction, version checksum",
    TableLevel: "broken, unknown, warned, stale, healthy",
}


@pytest.mark.parametrize("kind", WORDS, ids=lambda kind: kind.__name__)
def test_words_of_a_kind_keep_their_spelling_and_order(kind: type[Enum]) -> None:
    assert ", ".join(str(each.value) for each in kind) == WORDS[kind]
