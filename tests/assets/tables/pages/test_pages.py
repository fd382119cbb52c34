from __future__ import annotations

import dataclasses
from typing import Any

import dagster as dg
import pytest

from deltasnap_assets.checks.check import Verdict
from deltasnap_assets.checks.check_settings import CheckSettings
from deltasnap_assets.checks.compaction import PartitionFiles
from deltasnap_assets.checks.facts import FileFacts, TombstoneFacts
from deltasnap_assets.checks.registry import FRESH_TABLE
from deltasnap_assets.settings.table_settings import TableSettings
from deltasnap_assets.tables.pages.asset_pages import (
    ShownVersion,
    _described,
    _largest_and_smallest,
    all_files_page,
    changes_page,
    commit_text,
    health,
    log_segment_page,
    partitions_picture,
    state_page,
    table_page,
    tombstones_page,
)
from deltasnap_assets.tables.pages.column_schema import table_schema
from deltasnap_assets.tables.pages.pictures import MAX_CHARACTERS, VersionStep, file_sizes_picture, versions_picture
from deltasnap_assets.tables.pages.table_observation import last_vacuum_ms
from deltasnap_core import CommitInfo, DeltaHistory, FileSizeHistogram, Metadata
from deltasnap_core.log.listing.log_segment_builder import LogSegmentBuilder
from tests.assets.checks.known import condition, counted, expired, segment
from tests.assets.tables.pages.metadata_builders import plain, state
from tests.builders import LOG_PATH, MemoryLogStore, checkpoint, commits

FACTS = FileFacts(
    largest=(("day=1/a.parquet", 2000),),
    smallest=(("day=2/b.parquet", 1100),),
    partitions=(
        PartitionFiles(values={"day": "1", "country": None}, num_files=2, size_in_bytes=3000),
        PartitionFiles(values={"day": "2", "country": "de"}, num_files=1, size_in_bytes=1000),
    ),
    num_partitions=2,
    median_bytes=2000,
    compaction=None,
)


def shown(**values: Any) -> ShownVersion:
    """Return a version of a healthy table, with other values."""
    given: dict[str, Any] = {
        "state": state(),
        "segment": segment(),
        "counted": counted(FACTS),
        "condition": condition(),
        "committed_at_ms": 1_700_000_720_000,
        "commit": None,
        "steps": (),
    }
    return ShownVersion(**{**given, **values})


def test_log_segment_shows_the_age_of_its_checkpoint() -> None:
    assert plain(log_segment_page(segment()))["checkpoint_age"] == "2 commits and 2 minutes"
    assert plain(log_segment_page(segment(last=10)))["checkpoint_age"] == "of this version"
    (reported,) = plain(log_segment_page(segment(last=2, at=None))).values()
    assert reported == "3 commits, no checkpoint; 303 B"


def test_age_of_a_checkpoint_in_parts_is_that_of_its_last_one() -> None:
    first, last = checkpoint(10, parts=2)
    last = dataclasses.replace(last, modification_time=last.modification_time + 30_000)
    store = MemoryLogStore(commits(10, 12), [first, last])
    found = plain(log_segment_page(LogSegmentBuilder(store=store, log_path=LOG_PATH).build()))
    assert found["checkpoint_age"] == "2 commits and 90 seconds"


def test_changes_besides_files_are_shown_if_the_previous_version_is_known() -> None:
    assert changes_page(None, state()) == {}
    assert plain(changes_page(state(), state())) == {"changed_besides_files": "nothing"}
    (reported,) = plain(changes_page(state(metadata=None), state(protocol=None))).values()
    assert reported == "nothing"


def test_changes_besides_files_are_a_list_with_a_line_for_each() -> None:
    before, configuration = state(), {"delta.appendOnly": "false", "owner": "ann"}
    assert before.metadata is not None
    metadata = dataclasses.replace(before.metadata, configuration=configuration)
    (changes,) = plain(changes_page(before, state(metadata=metadata))).values()
    assert [line[:2] for line in str(changes).split("\n")] == ["- ", "- "]


def test_healthy_table_is_reported_as_ok() -> None:
    assert health(shown(), CheckSettings()).startswith("OK: 4 files, ")
    empty = shown(state=state(num_of_files=0, size_in_bytes=0))
    assert health(empty, CheckSettings()) == "OK: 0 files, 0 B on average. No maintenance is due."


def test_health_shows_a_stale_table_and_escapes_text_of_the_log() -> None:
    verdict = Verdict(passed=False, description="day=![x](http://evil/p.png) <b>hi</b> is old.", advice="Run `it`.")
    text = health(shown(others=[(FRESH_TABLE, verdict)]), CheckSettings())
    assert text == r"day=!\[x\](http\://evil/p.png) \<b\>hi\</b\> is old. Run `it`."


def test_table_with_problems_has_advice() -> None:
    reported = health(shown(), CheckSettings(max_commits_since_checkpoint=1))
    assert "2 commits since the last checkpoint, at most 1 expected. Run `deltasnap checkpoint PATH`" in reported


def test_every_failing_check_of_the_table_has_advice() -> None:
    gone = expired(20, 60_000)
    reported = health(shown(counted=counted(FACTS, gone)), CheckSettings(max_commits_since_checkpoint=1))
    lag, vacuum = reported.split("\n\n")
    assert lag.startswith("2 commits since the last checkpoint")
    assert vacuum.startswith("At version 12, the retention of 20 files (58.6 KiB) had ended")
    assert "Run `VACUUM`: it deletes the files that no version within the retention needs." in vacuum


def test_live_files_are_counted_by_size_and_partition() -> None:
    values: dict[str, Any] = plain(all_files_page(12, state(), counted(FACTS)))
    assert values["file_sizes"] == plain(state_page(state()))["file_sizes"]
    assert "counted_at_version" not in values
    assert "day=1/country=null" in values["bytes_by_partition"]
    assert "| largest | 2 KiB | `day=1/a.parquet` |" in values["largest_and_smallest"]


def test_partitions_that_are_not_shown_are_counted() -> None:
    for number, expected in ((20_000, "and 19,998 smaller ones"), (None, "and many smaller ones")):
        facts = dataclasses.replace(FACTS, num_partitions=number)
        assert str(partitions_picture(facts)).endswith(expected)


def test_pages_name_the_earlier_version_whose_files_were_counted() -> None:
    known = counted(FACTS, expired(2, 9), version=9)
    pages = [
        all_files_page(12, state(), known),
        tombstones_page(12, known, last_vacuum_ms=None),
        table_page(TableSettings(name="events", path="/t"), shown(counted=known)),
    ]
    assert [plain(page)["counted_at_version"] for page in pages] == ["9"] * 3


def test_unpartitioned_table_has_no_chart_of_partitions() -> None:
    everything = PartitionFiles(values={}, num_files=2, size_in_bytes=10)
    facts = dataclasses.replace(FACTS, largest=(), smallest=(), partitions=(everything,), num_partitions=1)
    assert list(all_files_page(12, state(), counted(facts))) == ["file_sizes"]


def test_vacuum_that_failed_is_not_the_last_one() -> None:
    ends = [
        DeltaHistory(version=v, timestamp=1_000 * v, operation="VACUUM END", operation_parameters={"status": status})
        for v, status in ((3, "FAILED"), (2, "COMPLETED"), (1, "COMPLETED"))
    ]
    assert (last_vacuum_ms(ends), last_vacuum_ms(ends[:1])) == (2_000, None)


def test_tombstones_page_shows_what_vacuum_would_free() -> None:
    facts = TombstoneFacts(
        num_files=3,
        size_in_bytes=3000,
        num_without_size=1,
        first_expires_ms=1_000,
        last_expires_ms=2_000,
        num_expired=2,
        num_expired_without_size=0,
        expired_bytes=2048,
    )
    values = plain(tombstones_page(12, counted(tombstones=facts), last_vacuum_ms=3_000))
    assert values["last_vacuum"] == 3.0
    assert "last_vacuum" not in tombstones_page(12, counted(tombstones=facts), last_vacuum_ms=None)
    assert values["vacuum_would_free_now"] == "at least 2 files, 2 KiB"
    assert values["contents"] == "3 files, 2.9 KiB, except 1 without a size"
    assert "size_in_bytes" not in values
    assert (values["first_expires"], values["last_expires"]) == (1.0, 2.0)


def test_state_is_shown_as_text_and_a_chart() -> None:
    found = state()
    values: dict[str, Any] = plain(state_page(found))
    assert values["contents"] == "90 rows in 4 files, 59.1 KiB"
    assert values["file_sizes"] == file_sizes_picture(found.file_size_histogram)


@pytest.mark.parametrize(("sizes", "is_shown"), [([100, 200], False), ([100, 20_000], True), ([], False)])
def test_version_with_all_files_in_one_bin_has_no_chart(sizes: list[int], is_shown: bool) -> None:
    values = plain(state_page(state(file_size_histogram=FileSizeHistogram.of_sizes(sizes))))
    assert ("file_sizes" in values) == is_shown


def test_page_of_the_table_has_every_fact_as_text_and_as_number() -> None:
    steps = [
        VersionStep(version=10, operation="MERGE", added=2048, removed=1024),
        VersionStep(version=11, operation="WRITE", added=10, removed=0),
        VersionStep(version=12, operation="WRITE", added=20, removed=3),
    ]
    table, commit = TableSettings(name="events", path="s3://key:secret@lake/events"), COMMITS["everything"][0]
    entries = table_page(table, shown(steps=steps, commit=commit))
    assert list(entries)[:5] == ["health", "contents", "last_commit", "last_commit_by", "committed_at"]
    assert entries.pop("last_commit_by").value == "|  |  |\n| - | - |\n| user | ada |\n| engine | x |"
    assert entries.pop("dagster/column_schema").value == table_schema(state().metadata).value  # type: ignore[arg-type]
    values: dict[str, Any] = plain(entries)
    assert values.pop("file_sizes") == file_sizes_picture(state().file_size_histogram)
    assert values.pop("bytes_by_partition") == partitions_picture(FACTS)
    assert values.pop("bytes_by_version") == versions_picture("bytes by version", steps)
    assert values == {
        "health": "OK: 4 files, 14.8 KiB on average. No maintenance is due.",
        "contents": "90 rows in 4 files, 59.1 KiB",
        "last_commit": "version 12: WRITE (append) by ada, x",
        "committed_at": 1_700_000_720,
        "operations": (
            "| operation | versions | added | removed |\n| - | - | - | - |\n"
            "| WRITE | 2 | 30 B | 3 B |\n| MERGE | 1 | 2 KiB | 1 KiB |"
        ),
        "schema": (
            "| column | type |  |\n| - | - | - |\n"
            "| `id` | bigint\\, not null | partition column\\; the key |\n| `tags` | array\\<string\\> |  |"
        ),
        "table_id": "t",
        "partitioned_by": "id",
        "properties": "| property | value |\n| - | - |\n| `delta.appendOnly` | `true` |",
        "protocol": "reader 3, writer 7: deletionVectors",
        "computed_state": dg.AssetKey(["events", "computed_state"]),
        "all_files": dg.AssetKey(["events", "all_files"]),
        "dagster/uri": "s3://*********(redacted)@lake/events",
        "dagster/row_count": 90,
        "num_of_files": 4,
        "dagster/size_bytes": 60_516,
        "size_per_file": 15_129,
        "tombstones": 2,
        "checkpoint_lag": 2,
    }


COMMITS = {
    "everything": (
        CommitInfo(operation="WRITE", operation_parameters={"mode": "Append"}, user_name="ada", engine_info="x"),
        "version 3: WRITE (append) by ada, x",
    ),
    "an id": (CommitInfo(operation="MERGE", user_id="7"), "version 3: MERGE by 7"),
    "nothing": (CommitInfo(), "version 3: unknown"),
}


@pytest.mark.parametrize("case", COMMITS)
def test_commit_is_described_by_its_operation_writer_and_engine(case: str) -> None:
    commit, expected = COMMITS[case]
    assert commit_text(3, commit) == expected


def test_files_to_read_for_a_version_are_counted() -> None:
    assert plain(log_segment_page(segment()))["to_read"] == "1 file of the checkpoint, 2 commits; 333 B"
    assert plain(log_segment_page(segment(last=11)))["checkpoint_age"] == "1 commit and 60 seconds"


def test_long_lists_are_cut_and_names_are_separated() -> None:
    properties = {f"p{number:03}": "x" for number in range(101)}
    known = Metadata(id="t", schema_string=None, partition_columns=("a", "b"), configuration=properties)
    values: dict[str, Any] = plain(_described(known))
    assert values["partitioned_by"] == "a, b"
    assert values["properties"].count("\n| `p") == 100
    assert "p100" not in values["properties"]


def test_as_many_large_and_small_files_are_listed_as_fit() -> None:
    two = (("a", 2), ("b", 1))
    table = _largest_and_smallest(dataclasses.replace(FACTS, largest=two, smallest=two[::-1]))
    assert [line.split(" | ")[0] for line in table.splitlines()[2:]] == ["| largest"] * 2 + ["| smallest"] * 2
    long = tuple((f"{number}" + "x" * 300, number) for number in range(3))
    table = _largest_and_smallest(dataclasses.replace(FACTS, largest=long, smallest=long))
    assert len(table.splitlines()) == 4
    longer = (("x" * 600, 1), ("y" * 600, 2))
    table = _largest_and_smallest(dataclasses.replace(FACTS, largest=longer, smallest=longer))
    assert [len(table) > MAX_CHARACTERS, len(table.splitlines())] == [True, 4]  # at least one of each kind
