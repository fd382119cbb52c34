"""The parts of the metadata tables that need no Spark: rows of a listing, files that VACUUM considers, SQL."""

from __future__ import annotations

import operator
from types import SimpleNamespace
from typing import Any

import pytest

from deltasnap_core import FileStatus, Metadata, MetadataTables, Protocol, TableLog
from deltasnap_core.log.listing.log_listing import LogListing
from deltasnap_core.replay.spark.reading.action_reader import PARSED
from deltasnap_core.scan.planning import condition_on_files
from deltasnap_core.scan.skipping.data_skipping import Skipping
from deltasnap_core.scan.tables.file_problems import (
    _CERTAIN,
    MAYBE_LINKED,
    MISSING,
    UNRESOLVED_PATH,
    WRONG_SIZE,
    _problem,
)
from deltasnap_core.scan.tables.log_tables import _log_files, listed_versions
from deltasnap_core.scan.tables.named_files import OUTSIDE
from deltasnap_core.scan.tables.vacuum_candidates import (
    CATALOG_IS_UNKNOWN,
    HIDDEN,
    LINKED,
    LOG_IS_GONE,
    NESTED,
    SAME_NAME,
    UNKNOWN_FEATURES,
    UNRESOLVED_NAMES,
    YOUNG_TOMBSTONE,
    _is_needed,
    _listed,
    _reason,
    why_unread,
)
from deltasnap_core.storage.folder_listing import FolderListing
from tests.builders import LOG_PATH, MemoryLogStore, checkpoint, checksum, commits, compaction, mtime_of, status
from tests.plain_sql import evaluated


def listing_of(*files: list[FileStatus]) -> LogListing:
    return TableLog(MemoryLogStore(*files), LOG_PATH).list()


def test_versions_show_their_files_and_why_they_cannot_be_loaded() -> None:
    listing = listing_of(commits(1, 2), checkpoint(4), commits(5, 5), commits(7, 8))
    reason = "the commit of version {} is missing, and there is {} before it"
    early, late = reason.format(0, "no checkpoint"), reason.format(6, "the checkpoint of version 4")
    found = list(listed_versions(listing, {1: 10, 4: 40}))
    assert [tuple(row.values()) for row in found] == [
        (1, 10, True, False, False, early),
        (2, None, True, False, False, early),
        (4, 40, False, True, True, None),
        (5, None, True, False, True, None),
        (7, None, True, False, False, late),
        (8, None, True, False, False, late),
    ]
    assert list(found[0]) == ["version", "ms", "has_commit", "has_checkpoint", "loadable", "why_not"]


def test_log_files_show_whether_the_version_reads_them_and_leave_out_unknown_ones() -> None:
    files = [*commits(1, 1), *checkpoint(2), *compaction(0, 1), *checksum(3), status("unknown.txt")]
    read = {files[0].path, files[1].path}
    assert list(_log_files(files, read)) == [
        {
            "path": file.path,
            "kind": kind,
            "version": version,
            "size": 100 + version,
            "modification_time": 1000 * mtime_of(version),
            "in_segment": in_segment,
        }
        for file, kind, version, in_segment in zip(
            files,
            ("commit", "checkpoint", "log compaction", "version checksum"),
            (1, 2, 0, 3),
            (True, True, False, False),
            strict=False,
        )
    ]


def versions_of_nothing() -> Any:
    return SimpleNamespace(version=SimpleNamespace(scanned=lambda options: options))


@pytest.mark.parametrize(("view", "expected"), [(None, "history"), ("mine", "mine")])
def test_view_of_a_table_has_the_given_name_or_that_of_the_table(
    view: str | None, expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    created: list[str] = []
    frame = SimpleNamespace(createOrReplaceTempView=created.append)
    monkeypatch.setattr(MetadataTables, "history", frame)
    assert MetadataTables(versions_of_nothing()).create_view("history", view) == expected
    assert created == [expected]


def test_view_of_an_unknown_table_is_a_value_error() -> None:
    with pytest.raises(ValueError, match="no metadata table 'secrets'; there are files, "):
        MetadataTables(versions_of_nothing()).create_view("secrets")


TABLE = "file:///lake/t"


def considered(*paths: str, partitions: tuple[str, ...] = (), targets: tuple[str, ...] = ()) -> dict[str, str | None]:
    """Return why each listed file is kept, of those that VACUUM considers."""
    files = [FileStatus(path=f"{TABLE}/{path}", size=len(path), modification_time=7) for path in paths]
    metadata = Metadata(id="t", schema_string=None, partition_columns=partitions, configuration={})
    table: Any = SimpleNamespace(table_path=TABLE, metadata=metadata)
    listing = FolderListing(
        files=tuple(files), link_targets=tuple(f"file://{each}" for each in targets), roots=(TABLE,)
    )
    rows = [row for row in _listed(table, listing).to_pylist() if row["kept"] != HIDDEN]
    assert all((row["listed_size"], row["modified_at"]) == (len(row["path"]), 7) for row in rows)
    return {row["path"]: row["kept"] for row in rows}


def test_hidden_files_are_not_considered() -> None:
    names = ["_delta_log/0.json", "metadata/v1.json", "/f", ".f", "_f", "_change/f", "bad\udc80"]
    hidden = [*names, "a/_b/f", "a/.b/f", "a/metadata/f"]
    shown = ["f", "a/b", "_change_data/f", "a/metadata_/f", "a/f_", "a_/f"]
    assert list(considered(*hidden, *shown)) == shown


def test_folder_of_a_partition_is_considered_even_if_its_name_begins_like_a_hidden_one() -> None:
    assert list(considered("_day=1/f", "_days=1/f", "_day/f", partitions=("_day",))) == ["_day=1/f"]


def test_files_in_a_nested_table_are_kept() -> None:
    kept = considered("in/_delta_log/0.json", "in/f", "in/deep/f", "inside/f", "f")
    assert kept == {"in/f": NESTED, "in/deep/f": NESTED, "inside/f": None, "f": None}


@pytest.mark.parametrize(
    ("target", "kept"),
    [
        ("/lake/t/a", ["a/f", "a/b/f", "A/F"]),
        ("/lake/t/a/b", ["a/b/f"]),
        ("/lake/t", ["f", "a/f", "a/b/f", "A/F"]),
        ("/lake", ["f", "a/f", "a/b/f", "A/F"]),
        ("/lake/to", []),
    ],
)
def test_files_that_a_link_leads_to_are_kept(target: str, kept: list[str]) -> None:
    found = considered("f", "a/f", "a/b/f", "A/F", targets=("/elsewhere/x", target))
    assert {path for path, reason in found.items() if reason == LINKED} == set(kept)


REASONS: dict[str, tuple[dict[str, Any], str]] = {
    "live": ({"live": True, "kept": "a link", "named": True}, "live file"),
    "removed lately": ({"deleted_at": 61, "kept": "a link"}, "tombstone has not expired"),
    "kept": ({"deleted_at": 60, "kept": "a link", "named": True}, "a link"),
    "named": ({"deleted_at": 60, "named": True, "is_unknown": True}, SAME_NAME),
    "maybe named": ({"deleted_at": 60, "is_unknown": True, "modified_at": 61}, UNRESOLVED_NAMES),
    "written again lately": ({"deleted_at": 60, "modified_at": 60}, YOUNG_TOMBSTONE),
    "expired": ({"deleted_at": 60, "modified_at": 59}, "expired tombstone"),
    "expired without a time": ({"deleted_at": 0, "modified_at": 0}, "expired tombstone"),
    "expired and not listed": ({"deleted_at": 60}, "expired tombstone"),
    "of unknown age": ({"modified_at": 0}, "orphan of unknown age"),
    "young": ({"modified_at": 60}, "orphan younger than the retention"),
    "old": ({"modified_at": 59}, "orphan"),
}
"""Facts about a file, and why VACUUM keeps or deletes it. Reasons that come first in the order win."""


def reason_of(*, unread: str | None = None, **facts: Any) -> str:
    unstated = {"live": None, "deleted_at": None, "kept": None, "named": False, "is_unknown": False}
    found = evaluated(_reason(60, unread=unread), **{**unstated, "modified_at": None, **facts})
    assert isinstance(found, str)
    return found


@pytest.mark.parametrize("case", REASONS)
def test_reasons_are_tried_from_the_safest_to_deletion(case: str) -> None:
    facts, expected = REASONS[case]
    assert reason_of(**facts) == expected


@pytest.mark.parametrize("case", ["expired", "old", "young", "written again lately"])
def test_no_file_that_the_log_may_need_is_deleted_after_the_log_is_gone(case: str) -> None:
    assert reason_of(unread=LOG_IS_GONE, **REASONS[case][0]) == LOG_IS_GONE


@pytest.mark.parametrize(
    ("writer", "features", "is_catalog_known", "expected"),
    [
        (2, (), False, None),
        (7, ("appendOnly", "rowTracking"), False, None),
        (7, ("catalogManaged", "new"), False, CATALOG_IS_UNKNOWN),
        (7, ("catalogManaged",), True, None),
        (7, ("catalogManaged", "new"), True, UNKNOWN_FEATURES),
        (7, ("appendOnly", "new"), False, UNKNOWN_FEATURES),
        (8, (), False, UNKNOWN_FEATURES),
    ],
)
def test_log_shows_every_needed_file_only_if_catalog_and_writer_features_are_known(
    writer: int, features: tuple[str, ...], is_catalog_known: bool, expected: str | None
) -> None:
    protocol = Protocol(min_reader_version=1, min_writer_version=writer, writer_features=features)
    assert why_unread(protocol, is_catalog_known=is_catalog_known) == expected


@pytest.mark.parametrize(
    ("live", "deleted_at", "is_needed"), [(True, None, True), (False, 60, False), (False, 61, True), (None, None, None)]
)
def test_file_is_needed_while_it_is_live_or_its_tombstone_is_kept(
    live: bool | None, deleted_at: int | None, is_needed: bool | None
) -> None:
    assert evaluated(_is_needed(60), live=live, deleted_at=deleted_at) == is_needed


@pytest.mark.parametrize(
    ("facts", "problem", "is_certain"),
    [
        ({"size": 3, "listed_size": 3, "is_equal": True}, None, None),
        ({"listed_size": 3}, None, None),  # a deletion vector
        ({"size": 3, "listed_size": 4, "is_equal": False}, WRONG_SIZE, True),
        ({"keys": "?", "inside": False}, UNRESOLVED_PATH, False),
        ({"inside": False}, OUTSIDE, False),
        ({"linked": ("file:///x",), "inside": False}, OUTSIDE, False),
        ({"linked": ("file:///x",)}, MAYBE_LINKED, False),
        ({}, MISSING, True),
    ],
)
def test_file_is_missing_for_certain_only_inside_a_folder_without_links(
    facts: dict[str, Any], problem: str | None, is_certain: bool | None
) -> None:
    columns = {"size": None, "listed_size": None, "is_equal": None, "keys": "/a", "inside": True, **facts}
    listing = FolderListing(files=(), link_targets=columns.pop("linked", ()), roots=(TABLE,))
    found = evaluated(_problem("inside", listing), functions={"array_contains": operator.eq}, **columns)
    assert (found, evaluated(_CERTAIN, problem=found)) == (problem, is_certain)


def test_conditions_on_partitions_and_statistics_keep_files_for_which_they_are_unknown() -> None:
    by_value = Skipping(partitions="p = 1")
    assert condition_on_files(Skipping(), parsed=False) is None
    assert condition_on_files(by_value, parsed=False) == "coalesce(p = 1, true)"
    assert (
        condition_on_files(Skipping(statistics="q", partitions="p"), parsed=False)
        == "coalesce(p, true) and coalesce(q, true)"
    )


@pytest.mark.parametrize("parsed", [False, True])
def test_statistics_are_parsed_once_unless_the_checkpoint_has_them_parsed(parsed: bool) -> None:
    skipping = Skipping(statistics="s.numRecords > 1", statistics_read=frozenset({("numRecords",)}))
    text = condition_on_files(skipping, parsed=parsed)
    assert text is not None
    assert text.count("from_json(") == 1
    # Not around `exists`: with a legacy setting, that is false where the condition is null.
    assert text.startswith("exists(")
    assert text.endswith(", s -> coalesce(s.numRecords > 1, true))")
    assert (f"coalesce({PARSED}, " in text) is parsed
