"""Segments: golden versions, invariants, a simple search, and the files of an opened checkpoint."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

from deltasnap_core import (
    CatalogCommits,
    DeltaSnapError,
    DeltaTableNotFoundError,
    FileStatus,
    LogSegment,
    VersionGapError,
    VersionNotFoundError,
)
from deltasnap_core.log.checkpoints.checkpoint_contents import CheckpointContents, open_checkpoint
from deltasnap_core.log.listing.checkpoint_provider import NO_CHECKPOINT, CheckpointProvider
from deltasnap_core.log.listing.log_listing import list_log
from deltasnap_core.log.listing.log_segment_builder import LogSegmentBuilder
from deltasnap_core.protocol.log_files.file_names import CheckpointKind, commit_file, commit_version
from deltasnap_core.protocol.log_files.last_checkpoint_info import LastCheckpointInfo
from deltasnap_core.storage.fsspec_log_store import FsspecLogStore
from deltasnap_core.storage.urls import join_url, to_url
from tests.builders import (
    LOG_PATH,
    CountingLogStore,
    MemoryLogStore,
    add,
    checkpoint,
    checksum,
    commits,
    compaction,
    metadata,
    mtime_of,
    protocol,
    remove,
    staged_commits,
    status,
    write_log,
)
from tests.checkpoint_files import STYLES, CheckpointStyle, write_checkpoint


def classic(version: int) -> CheckpointProvider:
    return CheckpointProvider(
        version=version, files=tuple(checkpoint(version)), kind=CheckpointKind.CLASSIC, format="parquet"
    )


def segment(
    version: int, deltas: Sequence[FileStatus], *, after: int = -1, compactions: list[FileStatus] | None = None
) -> LogSegment:
    return LogSegment(
        log_path=LOG_PATH,
        version=version,
        deltas=deltas if isinstance(deltas, tuple) else tuple(deltas),
        checkpoint_provider=NO_CHECKPOINT if after < 0 else classic(after),
        compactions=tuple(compactions or ()),
        last_commit_timestamp=0,
    )


@pytest.mark.parametrize(
    ("version", "deltas", "after", "error"),
    [
        pytest.param(3, commits(0, 2), -1, VersionNotFoundError, id="ends before the version"),
        pytest.param(1, commits(0, 2), -1, VersionNotFoundError, id="ends after the version"),
        pytest.param(3, [], 2, VersionNotFoundError, id="checkpoint before the version"),
        pytest.param(3, [*commits(0, 1), *commits(3, 3)], -1, VersionGapError, id="gap"),
        pytest.param(3, commits(1, 3), -1, VersionGapError, id="does not start at 0"),
        pytest.param(5, commits(5, 5), 3, VersionGapError, id="does not start at the checkpoint"),
        pytest.param(3, commits(3, 3), 4, ValueError, id="checkpoint beyond the version"),
        pytest.param(2, [*commits(1, 1), *commits(0, 0), *commits(2, 2)], -1, ValueError, id="out of order"),
        pytest.param(2, [*commits(0, 1), *commits(1, 2)], -1, ValueError, id="a version twice"),
        pytest.param(3, commits(2, 3), 2, ValueError, id="a commit of the checkpoint"),
    ],
)
def test_segment_checks_invariants(version: int, deltas: list[FileStatus], after: int, error: type[Exception]) -> None:
    with pytest.raises(error):
        segment(version, deltas, after=after)


@pytest.mark.parametrize(("version", "after"), [(4, 0), (5, 1), (3, 1)])
def test_run_of_commits_must_be_the_one_of_the_segment(version: int, after: int) -> None:
    run = list_log(MemoryLogStore(commits(0, 9)), LOG_PATH).commits_between(2, 4)
    assert segment(4, run, after=1).deltas == tuple(commits(2, 4))
    with pytest.raises((VersionGapError, VersionNotFoundError, ValueError)):
        segment(version, run, after=after)


def test_segment_is_one_json_object_that_names_all_its_files() -> None:
    files = {
        "checkpoint": checkpoint(2),
        "deltas": commits(3, 5),
        "compactions": compaction(3, 4),
        "checksumFile": checksum(5),
    }
    listing = list_log(MemoryLogStore(*files.values()), LOG_PATH)
    as_json = {
        name: [{"path": file.path, "size": file.size, "modificationTime": file.modification_time} for file in each]
        for name, each in files.items()
    }
    expected = {
        "logPath": LOG_PATH,
        "version": 5,
        "checkpoint": {"version": 2, "files": as_json["checkpoint"], "kind": "classic", "format": "parquet"},
        "deltas": as_json["deltas"],
        "compactions": as_json["compactions"],
        "checksumFile": as_json["checksumFile"][0],
        "lastCommitFile": as_json["deltas"][-1],
        "lastCommitTimestamp": mtime_of(5),
    }
    assert LogSegment.from_listing(listing, 5).to_json() == expected
    without_checkpoint = list_log(MemoryLogStore(commits(0, 0)), LOG_PATH)
    (only,) = commits(0, 0)
    assert LogSegment.from_listing(without_checkpoint, 0).to_json() == {
        "logPath": LOG_PATH,
        "version": 0,
        "checkpoint": None,
        "deltas": [{"path": only.path, "size": only.size, "modificationTime": only.modification_time}],
        "compactions": [],
        "checksumFile": None,
        "lastCommitFile": {"path": only.path, "size": only.size, "modificationTime": only.modification_time},
        "lastCommitTimestamp": mtime_of(0),
    }


@pytest.mark.parametrize(("size", "timestamp"), [(0, mtime_of(5)), (1, 7)])
def test_the_checkpoint_tells_the_time_of_a_commit_that_is_truncated_or_no_file(size: int, timestamp: int) -> None:
    touched = status(commit_file(5), size=size, mtime=7)
    listing = list_log(MemoryLogStore([*commits(0, 4), touched, *commits(6, 6)], checkpoint(5)), LOG_PATH)
    assert LogSegment.from_listing(listing, 5).last_commit_timestamp == timestamp
    assert LogSegment.from_listing(listing, 5, NO_CHECKPOINT).last_commit_timestamp == 7


@pytest.mark.parametrize("field", ["checksum_file", "last_commit_file"])
def test_checksum_and_last_commit_are_of_the_version(field: str) -> None:
    other: dict[str, Any] = {field: commits(5, 5)[0]}
    with pytest.raises(ValueError, match=r"Expected a file of version 6, found 0*5"):
        replace(segment(6, commits(3, 6), after=2), **other)


@pytest.mark.parametrize("stray", [compaction(2, 4), compaction(5, 7), compaction(5, 5), commits(4, 4)])
def test_segment_has_only_compactions_of_its_own_commits(stray: list[FileStatus]) -> None:
    assert segment(6, commits(3, 6), after=2, compactions=compaction(3, 6)).compactions
    with pytest.raises(ValueError, match="Compactions"):
        segment(6, commits(3, 6), after=2, compactions=stray)


def test_segment_of_ten_thousand_commits_names_all_that_are_missing() -> None:
    with pytest.raises(VersionGapError) as error:
        segment(20_000, commits(10_000, 20_000))
    assert error.value.missing == tuple(range(10_000))
    assert "0 to 9999" in str(error.value)


def test_commit_version_of_published_and_staged_commits() -> None:
    assert commit_version(commits(12, 12)[0].path) == commit_version(staged_commits(12, 12)[0].path) == 12
    with pytest.raises(ValueError, match="Not a commit"):
        commit_version("file:///_last_checkpoint")


VERSIONS = st.integers(0, 9)


@given(
    present=st.sets(VERSIONS),
    checkpoints=st.sets(VERSIONS),
    version=st.none() | st.integers(0, 10),
    hint=st.none() | st.integers(0, 12),
)
def test_segment_matches_a_simple_search(
    present: set[int], checkpoints: set[int], version: int | None, hint: int | None
) -> None:
    files = [*(commits(v, v) for v in present), *(checkpoint(v) for v in checkpoints)]
    store = CountingLogStore(MemoryLogStore(*files))

    def search() -> tuple[int, list[int]] | type[DeltaSnapError]:
        known = present | checkpoints
        if not known:
            return DeltaTableNotFoundError
        target = max(known) if version is None else version
        if target not in known:
            return VersionNotFoundError
        start = max((v for v in checkpoints if v <= target), default=-1)
        needed = list(range(start + 1, target + 1))
        return (start, needed) if present.issuperset(needed) else VersionGapError

    def build() -> tuple[int, list[int]] | type[DeltaSnapError]:
        reported = None if hint is None else LastCheckpointInfo(version=hint)
        try:
            found = LogSegmentBuilder(store, LOG_PATH).build(version, hint=reported)
        except DeltaSnapError as error:
            return type(error)
        return found.checkpoint_provider.version, [commit_version(file.path) for file in found.deltas]

    assert build() == search()
    assert len(store.lists) <= 3
    assert store.calls == len(store.lists)


# Other categories depend on the content of files, which a segment does not read.
REFUSALS = {
    "no_table": DeltaTableNotFoundError,
    "version_not_found": VersionNotFoundError,
    "version_gap": VersionGapError,
}


def builder_of(golden: Path, table: str) -> LogSegmentBuilder:
    return LogSegmentBuilder(FsspecLogStore(), to_url(golden / "tables" / table / "_delta_log"))


def expected_files(golden: Path) -> list[tuple[str, dict[str, Any]]]:
    return [(file.stem, json.loads(file.read_text())) for file in sorted((golden / "expected").glob("*.json"))]


def described(segment: LogSegment) -> dict[str, Any]:
    """A segment in the form of the expected files."""

    def names(files: Any) -> list[str]:
        return [file.path.removeprefix(f"{segment.log_path}/") for file in files]

    checkpoint = segment.checkpoint_provider
    return {
        "checkpoint_files": names(checkpoint.files),
        "checkpoint_kind": checkpoint.kind,
        "checkpoint_version": None if checkpoint.is_empty else checkpoint.version,
        "compaction_files": names(segment.compactions),
        "delta_files": names(segment.deltas),
    }


def difference(builder: LogSegmentBuilder, version: int | None, answer: dict[str, Any], *, with_hint: bool) -> Any:
    """The difference between the segment and the expected result; None: equal."""
    refusal = REFUSALS.get(answer.get("error", ""))
    try:
        segment = builder.build(version, hint=builder.read_hint() if with_hint else None)
    except (DeltaTableNotFoundError, VersionGapError, VersionNotFoundError) as error:
        return None if type(error) is refusal else error
    if "error" in answer:
        return f"expected {answer}" if refusal else None
    found = described(segment)
    expected = {key: answer["log_segment"][key] for key in found}
    return None if found == expected and segment.version == answer["version"] else (found, expected)


@pytest.mark.slow
@pytest.mark.parametrize("with_hint", [True, False], ids=["with hint", "without hint"])
def test_segment_matches_the_expected_one_at_every_version(golden: Path, with_hint: bool) -> None:
    cases, different = 0, {}
    for table, expected in expected_files(golden):
        builder = builder_of(golden, table)
        if not (with_hint or (golden / "tables" / table / "_delta_log" / "_last_checkpoint").exists()):
            continue
        answers: list[tuple[int | None, dict[str, Any]]] = [(None, expected["latest"])]
        answers += [(int(v), answer) for v, answer in (expected["versions"] | expected["refused_versions"]).items()]
        cases += len(answers)
        for version, answer in answers:
            if found := difference(builder, version, answer, with_hint=with_hint):
                different[table, version] = found
    assert different == {}
    assert cases >= (817 if with_hint else 411)


def test_segment_with_the_catalogs_log_tail_has_the_staged_commits(golden: Path) -> None:
    cases = 0
    for table, expected in expected_files(golden):
        if "latest_with_staged_commits" not in expected:
            continue
        builder, answer = builder_of(golden, table), expected["latest_with_staged_commits"]
        listed = builder.store.list_from(join_url(builder.log_path, "_staged_commits/0"))
        ratified = [
            file for file in listed if file.name in {Path(name).name for name in answer["log_segment"]["delta_files"]}
        ]
        segment = replace(
            builder, catalog=CatalogCommits(log_tail=tuple(ratified), max_version=answer["version"])
        ).build()
        found = described(segment)
        assert (segment.version, found) == (answer["version"], {key: answer["log_segment"][key] for key in found})
        cases += 1
    assert cases == 1


def test_segment_survives_json(golden: Path) -> None:
    cases = 0
    for table, expected in expected_files(golden):
        if "error" in expected["latest"]:
            continue
        segment = builder_of(golden, table).build()
        found = LogSegment.from_json(
            json.loads(json.dumps(segment.to_json_without_lists())),
            log_path=segment.log_path,
            deltas=segment.deltas,
            compactions=segment.compactions,
            checkpoint_files=segment.checkpoint_provider.files,
        )
        assert found == segment
        cases += 1
    assert cases >= 154


ACTIONS = [protocol(), metadata(), add("a"), add("b"), remove("c")]
# By style: top-level files, sidecars, lines, actions (a V2 checkpoint has one action for itself and one per sidecar).
EXPECTED = {
    "classic": (1, 0, 0, 5),
    "multipart": (2, 0, 0, 5),
    "v2-parquet": (1, 0, 0, 6),
    "v2-json": (0, 0, 6, 6),
    "v2-parquet-sidecars": (1, 2, 0, 8),
    "v2-json-sidecars": (0, 2, 5, 8),
}


def opened(table: Path, style: CheckpointStyle) -> CheckpointContents:
    log = write_log(table, {0: [protocol(), metadata()], 1: [add("a")]})
    write_checkpoint(log, 1, style, ACTIONS)
    store = FsspecLogStore()
    provider = LogSegmentBuilder(store, f"file://{log}").build().checkpoint_provider
    assert isinstance(provider, CheckpointProvider)
    return open_checkpoint(store, provider, f"file://{log}")


@pytest.mark.parametrize("style", STYLES)
def test_checkpoint_consists_of_its_files_its_sidecars_or_its_lines(style: CheckpointStyle, tmp_path: Path) -> None:
    contents = opened(tmp_path, style)
    found = (len(contents.top_level), len(contents.sidecars), contents.lines.num_rows, contents.num_rows)
    assert found == EXPECTED[style]
    assert contents.version == 1
    assert (contents.lines_path is None) == ("json" not in style)


@pytest.mark.parametrize("style", STYLES)
def test_file_actions_are_read_from_every_file_that_may_contain_some(style: CheckpointStyle, tmp_path: Path) -> None:
    contents = opened(tmp_path, style)
    assert contents.files_with_file_actions == (*contents.top_level, *contents.sidecars)
    assert all(file.has_file_actions for file in contents.sidecars)
