"""The condition of a table: every kind of damage has a fault with file, reason, versions and advice."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from deltasnap_core import (
    DeltaSnapError,
    FileStatus,
    Metadata,
    Problem,
    ProblemKind,
    TableCondition,
    TableLog,
    VersionRanges,
)
from deltasnap_core.errors import StorageError
from deltasnap_core.log.checkpoints.checkpoint_pages import read_every_page
from deltasnap_core.log.condition import examined_files
from deltasnap_core.log.condition.commit_findings import CommitFindings
from deltasnap_core.protocol.log_files.file_names import checkpoint_file, commit_file
from deltasnap_core.storage.fsspec_log_store import FsspecLogStore
from deltasnap_core.storage.urls import to_url
from tests.builders import (
    Action,
    CountingLogStore,
    MemoryLogStore,
    add,
    content,
    flip_bytes,
    metadata,
    multipart_checkpoint_files,
    protocol,
    write_log,
)
from tests.checkpoint_files import STYLES, CheckpointStyle, write_checkpoint
from tests.core.log.condition.table_condition_builders import FIRST, checkpointed, condition, lose, make_log


def loads(table: Path, version: int) -> bool:
    try:
        _ = TableLog.for_path(table).at(version).replayable
    except DeltaSnapError:
        return False
    return True


def test_condition_of_a_sound_table_is_ok(tmp_path: Path) -> None:
    make_log(tmp_path / "t", 6, checkpoint=4)
    found = condition(tmp_path / "t")
    assert (found.mark, found.faults, found.text) == ("ok", (), "")
    assert (found.latest, [*found.loadable], found.newest_loadable) == (6, [0, 1, 2, 3, 4, 5, 6], 6)
    assert found.is_readable
    assert found.commits_read == (5, 6)
    assert found.checkpoints_read == (checkpoint_file(4),)
    assert found.pages_read


def test_sound_log_is_listed_once(tmp_path: Path) -> None:
    make_log(tmp_path / "t", 6, checkpoint=4)
    store = CountingLogStore(FsspecLogStore())
    assert TableLog(store, f"{to_url(tmp_path / 't')}/_delta_log").condition(first=0).mark == "ok"
    assert len(store.lists) == 1


@pytest.mark.parametrize(
    ("style", "damage"),
    [
        *((style, "truncated") for style in STYLES),
        *((style, damage) for style in ("classic", "v2-json") for damage in ("footer", "empty", "garbage")),
    ],
)
def test_damaged_checkpoint_is_named_with_its_fallback(tmp_path: Path, style: CheckpointStyle, damage: str) -> None:
    log = make_log(tmp_path / "t", 6, checkpoint=4, style=style)
    file = sorted(log.glob("*.checkpoint*"))[0]
    match damage:
        case "footer":
            flip_bytes(file, max(file.stat().st_size - 400, 0))
        case "empty":
            file.write_bytes(b"")
        case "truncated":
            file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])
        case "garbage":
            file.write_bytes(b"no checkpoint " * 40)
    found = condition(tmp_path / "t")
    (fault,) = found.faults
    assert (fault.kind, fault.mark, found.mark) == (ProblemKind.CORRUPT_CHECKPOINT, "warning", "warning")
    assert file.name in fault.text
    assert fault.reason
    assert fault.read_instead == "the 7 commits from version 0 on"
    assert "Other readers" in fault.text
    assert found.loadable == (0, 1, 2, 3, 4, 5, 6)
    assert loads(tmp_path / "t", 6)


Change = Callable[[Path], object]


def write(version: int, text: str) -> Change:
    return lambda log: (log / commit_file(version)).write_text(text)


def without(*versions: int) -> Change:
    return lambda log: lose(log, *versions)


def damage(version: int, content: bytes = b"PAR1") -> Change:
    """Write a damaged checkpoint."""
    return lambda log: (log / checkpoint_file(version)).write_bytes(content)


def needing(**features: list[str]) -> Change:
    return write(5, json.dumps(protocol(3, 7, **features)) + "\n")


def checkpoint_of(version: int) -> Change:
    return lambda log: checkpointed(log, version)


DAMAGES: dict[str, tuple[list[Change], list[str], str]] = {
    "a sound log has no fault": ([], [], "0 to 6"),
    "a checkpoint that nothing replaces loses its versions": (
        [damage(4), without(0, 1, 2, 3)],
        ["error corrupt_checkpoint, 4 to 6"],
        "",
    ),
    "a gap after a checkpoint that nothing replaces is named, too": (
        [damage(4), without(0, 1, 2, 3, 5)],
        ["error missing_commit, 5 to 6, missing 5", "error corrupt_checkpoint, 4 to 6"],
        "",
    ),
    "a checkpoint is replaced by an older one": (
        [checkpoint_of(2), damage(4), without(0, 1)],
        ["warning corrupt_checkpoint, the checkpoint of version 2 and the 4 commits after it"],
        "2 to 6",
    ),
    "an empty checkpoint after the latest commit loses its version": (
        [damage(4), damage(6, b""), without(0, 5, 6)],
        ["error corrupt_checkpoint, 4", "error corrupt_checkpoint, 6"],
        "",
    ),
    "an older checkpoint is found where a gap needs it": (
        [damage(2), without(1)],
        ["error missing_commit, 1 to 3, missing 1", "error corrupt_checkpoint, 2 to 3"],
        "0, 4 to 6",
    ),
    "an older checkpoint is found where cleaned up commits need it": (
        [damage(2), without(0, 1, 2)],
        ["error corrupt_checkpoint, 2 to 3"],
        "4 to 6",
    ),
    "each gap is a fault of the versions up to the next checkpoint": (
        [without(1, 3, 5)],
        [f"error missing_commit, {lost}" for lost in ("1 to 3, missing 1", "3, missing 3", "5 to 6, missing 5")],
        "0, 4",
    ),
    "commits before a checkpoint may be cleaned up": ([without(0, 1, 2, 3)], [], "4 to 6"),
    "the commit of a checkpoint is replaced by it": ([without(4)], ["warning missing_commit, missing 4"], "0 to 6"),
    "commits lost between two checkpoints are a gap": (
        [checkpoint_of(1), without(0, 3)],
        ["error missing_commit, 3, missing 3"],
        "1 to 2, 4 to 6",
    ),
    "a commit that is no JSON is named with its line": (
        [write(5, '{"add":{"path":"a"\x00garbage\n')],
        ["error corrupt_commit, 5 to 6, line 1"],
        "0 to 4",
    ),
    "an unknown feature loses all later versions": (
        [needing(readerFeatures=["timeMachine"], writerFeatures=["timeMachine"])],
        ["error unsupported_protocol, 5 to 6"],
        "0 to 4",
    ),
    "features of readers without a list lose all later versions": (
        [needing(writerFeatures=["timeMachine"])],
        ["error invalid_protocol, 5 to 6"],
        "0 to 4",
    ),
    "a commit that names a manifest is unsupported from there on": (
        [write(5, '{"checkpoint":{"path":"manifest"}}\n')],
        ["error unsupported_protocol, 5 to 6"],
        "0 to 4",
    ),
    "errors come before warnings": (
        [write(5, ""), damage(4), without(0, 1, 2, 3)],
        ["error corrupt_checkpoint, 4 to 6", "warning empty_commit"],
        "",
    ),
}


@pytest.mark.parametrize("case", DAMAGES)
def test_damage_has_faults_with_their_versions(tmp_path: Path, case: str) -> None:
    changes, faults, loadable = DAMAGES[case]
    log = make_log(tmp_path / "t", 6, checkpoint=4)
    for change in changes:
        change(log)
    found = condition(tmp_path / "t", first=0)
    assert ([shown(fault) for fault in found.faults], found.loadable.text()) == (faults, loadable)
    assert [*found.loadable] == [version for version in range(7) if loads(tmp_path / "t", version)]


def shown(fault: Problem) -> str:
    """Return mark and kind of a fault, its versions, its commits, its line and what is read instead."""
    missing, line = fault.missing.text(), fault.where.line
    facts = (fault.versions.text(), missing and f"missing {missing}", line and f"line {line}", fault.read_instead)
    return ", ".join([f"{fault.mark} {fault.kind.value}", *(str(fact) for fact in facts if fact)])


@pytest.mark.parametrize("style", ["classic", "multipart", "v2-parquet-sidecars"])
def test_condition_finds_damaged_pages_by_reading_them(tmp_path: Path, style: CheckpointStyle) -> None:
    log = make_log(tmp_path / "t", 40, checkpoint=40, style=style)
    folder = log / "_sidecars" if "sidecars" in style else log
    file = sorted(folder.glob("*.parquet"))[0]
    flip_bytes(file, 40)
    (fault,) = condition(tmp_path / "t").faults
    assert fault.kind == ProblemKind.CORRUPT_CHECKPOINT
    assert file.name in (fault.where.file or "").replace("%20", " ")


@pytest.mark.parametrize("style", ["classic", "v2-parquet-sidecars"])
def test_condition_reads_only_the_pages_of_a_small_checkpoint(tmp_path: Path, style: CheckpointStyle) -> None:
    log = make_log(tmp_path / "t", 40, checkpoint=40, style=style)
    size = sum(file.stat().st_size for file in log.glob("**/*.parquet"))
    assert [condition(tmp_path / "t", max_page_bytes=limit).pages_read for limit in (500, size)] == [False, True]


def test_condition_without_pages_reports_that_they_were_not_read(tmp_path: Path) -> None:
    make_log(tmp_path / "t", 6, checkpoint=4)
    found = condition(tmp_path / "t", read_pages=False)
    assert (found.pages_read, found.checkpoint) == (False, None)
    assert condition(tmp_path / "t").checkpoint is not None


def damage_pages(file: Path) -> None:
    flip_bytes(file, 40)
    os.utime(file, (1, 1))


def test_condition_reads_the_pages_of_a_checkpoint_that_replaced_the_listed_one(tmp_path: Path) -> None:
    file = make_log(tmp_path / "t", 40, checkpoint=40) / checkpoint_file(40)
    table = TableLog.for_path(tmp_path / "t")
    listing = table.list()
    damage_pages(file)
    found = table.condition(listing, read_pages=False)
    assert [fault.kind for fault in found.faults] == [ProblemKind.CORRUPT_CHECKPOINT]
    assert found.checkpoint == table.list().newest_checkpoint != listing.newest_checkpoint


def test_checkpoint_that_is_replaced_while_read_is_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = make_log(tmp_path / "t", 40, checkpoint=40) / checkpoint_file(40)
    read_pages, pending = read_every_page, [file]

    def read_and_replace(*arguments: Any) -> Any:
        found = read_pages(*arguments)
        while pending:
            damage_pages(pending.pop())
        return found

    monkeypatch.setattr(examined_files, "read_every_page", read_and_replace)
    assert [fault.kind for fault in condition(tmp_path / "t").faults] == [ProblemKind.CORRUPT_CHECKPOINT]


@pytest.mark.parametrize(
    ("broken", "checkpoints", "instead"),
    [
        (
            2,
            {2: ["v2-parquet", "classic"], 6: ["classic"]},
            "another checkpoint of version 2 and the 3 commits after it",
        ),
        (4, {2: ["classic"], 4: ["classic"], 7: ["classic"]}, "the checkpoint of version 2 and the 4 commits after it"),
        (5, {2: ["classic"], 4: ["classic"], 5: ["classic"]}, "the checkpoint of version 4 and the 4 commits after it"),
    ],
    ids=["of the same version", "of an older version", "of the newest older version"],
)
def test_damaged_older_checkpoint_with_a_replacement_is_a_warning(
    tmp_path: Path, broken: int, checkpoints: dict[int, list[CheckpointStyle]], instead: str
) -> None:
    log = make_log(tmp_path / "t", 8)
    for version, styles in checkpoints.items():
        for style in styles:
            files = checkpointed(log, version, style)
            if version == broken and style == styles[0]:
                files[0].write_bytes(b"broken")
    lose(log, *range(3))
    found = condition(tmp_path / "t", first=broken + 1)
    assert (found.mark, found.loadable.text(), found.unloadable.text()) == ("warning", "2 to 8", "")
    assert [fault.read_instead for fault in found.faults] == [instead]


@pytest.mark.parametrize("style", STYLES)
def test_old_checkpoint_that_a_cleanup_left_is_no_gap(tmp_path: Path, style: CheckpointStyle) -> None:
    log = make_log(tmp_path / "t", 9, checkpoint=6, style=style)
    checkpointed(log, 2, style)
    lose(log, *range(6))
    found = condition(tmp_path / "t", first=0)
    assert found.mark == "ok"
    assert found.loadable == (2, 6, 7, 8, 9)


def test_condition_reads_earlier_commits_on_request_unless_they_are_read_already(tmp_path: Path) -> None:
    log = make_log(tmp_path / "t", 9, checkpoint=6)
    (log / commit_file(3)).write_text("garbage\n")
    assert condition(tmp_path / "t").mark == "ok"
    found = condition(tmp_path / "t", first=0)
    assert found.faults[0].versions == (3, 4, 5)
    assert found.is_readable
    assert condition(tmp_path / "t", first=0, known=CommitFindings(versions={3})).mark == "ok"


@pytest.mark.parametrize(
    ("removed", "loadable"), [((2,), (0, 1, 5, 6)), ((1, 2), (0, 5, 6)), ((), (0, 1, 2, 3, 4, 5, 6))]
)
def test_older_checkpoint_replaces_lost_commits(
    tmp_path: Path, removed: Sequence[int], loadable: Sequence[int]
) -> None:
    log = make_log(tmp_path / "t", 6, checkpoint=5)
    (log / checkpoint_file(3)).write_bytes(b"no Parquet")
    lose(log, *removed)
    assert condition(tmp_path / "t", first=0).loadable == loadable
    assert [loads(tmp_path / "t", version) for version in range(7)] == [version in loadable for version in range(7)]


def test_condition_has_one_fault_for_adjacent_versions_that_need_the_same_feature(tmp_path: Path) -> None:
    def needs(*features: str) -> list[Action]:
        return [protocol(3, 7, readerFeatures=features, writerFeatures=features)]

    write_log(tmp_path / "t", {0: [*needs("timeMachine"), metadata()], 1: [add("a")], 2: needs("timeMachine")})
    write_log(tmp_path / "t", {3: needs("timeMachine", "teleport"), 4: [protocol(9, 9)], 5: [protocol()]})
    found = condition(tmp_path / "t")
    assert [(fault.reason, [*fault.versions]) for fault in found.faults] == [
        ("timeMachine", [0, 1, 2]),
        ("timeMachine, teleport", [3]),
        ("reader version 9", [4]),
    ]
    assert found.loadable == (5,)


def test_condition_uses_known_schemas_of_stored_versions(tmp_path: Path) -> None:
    broken = metadata(schemaString="{")
    write_log(tmp_path / "t", {0: [FIRST[0], broken], 1: [add("b")]})
    found = TableLog.for_path(str(tmp_path / "t")).condition(known=CommitFindings(sound=VersionRanges.of(range(2))))
    assert found.mark == "ok"
    known = Metadata.from_json(broken["metaData"])
    assert found.with_schema_of(known, None).mark == "error"
    assert (
        found.with_schema_of(known, None).with_schema_of(known, None).faults == found.with_schema_of(known, None).faults
    )


def test_stored_version_after_a_checkpoint_does_not_vouch_for_the_commits_before_it(tmp_path: Path) -> None:
    log = make_log(tmp_path / "t", 6, checkpoint=5)
    (log / commit_file(3)).write_bytes(b"{nope")
    found = condition(tmp_path / "t", first=3, known=CommitFindings(sound=VersionRanges.of([2, 5])))
    assert [[*found.commits_read], [*found.unloadable], [*found.unread]] == [[3, 4, 6], [3, 4], [0, 1, 2, 5]]
    assert not found.is_complete
    assert condition(tmp_path / "t", first=0).is_complete


def test_condition_reports_an_empty_commit_of_a_stored_version(tmp_path: Path) -> None:
    log = make_log(tmp_path / "t", 6)
    (log / commit_file(5)).write_bytes(b"\n")
    (log / commit_file(6)).write_bytes(b"")
    known = CommitFindings(sound=VersionRanges.of(range(7)))
    assert "commits of versions 5 to 6 are empty" in condition(tmp_path / "t", known=known).text


class RefusingStore(MemoryLogStore):
    def list_from(self, path: str) -> Iterator[FileStatus]:
        raise StorageError(path=path, reason="refused")


def test_condition_shows_no_credentials() -> None:
    log_path, log = "s3://ada:secret@lake/t/_delta_log", MemoryLogStore()
    log.put(commit_file(0), content(FIRST), log_path=log_path)
    for store in (MemoryLogStore(), RefusingStore(), log):
        found = TableLog(store, log_path).condition()
        assert found.table.endswith("@lake/t")
        assert "secret" not in f"{found.table} {found.text} {found.to_json()}"


def test_older_checkpoint_and_commits_before_it_are_not_read_where_no_version_needs_them(tmp_path: Path) -> None:
    log = make_log(tmp_path / "t", 7, checkpoint=3)
    checkpointed(log, 6)
    found = condition(tmp_path / "t", first=0)
    assert found.checkpoints_read == (checkpoint_file(6),)
    assert condition(tmp_path / "t", first=5).checkpoints_read == (checkpoint_file(6), checkpoint_file(3))
    read = [condition(tmp_path / "t", first=first).commits_read.text() for first in (1, 5, 6, 8)]
    assert read == ["0 to 7", "4 to 7", "6 to 7", "7"]


def test_versions_without_a_protocol_before_the_newest_checkpoint_are_found(tmp_path: Path) -> None:
    log = write_log(tmp_path / "t", {v: [add(f"f{v}.parquet")] for v in range(6)})
    write_checkpoint(log, 3, "classic", [*FIRST, *(add(f"f{v}.parquet") for v in range(4))])
    for first in range(3):
        found = condition(tmp_path / "t", first=first)
        assert found.loadable.text() == "3 to 5"
        assert [(fault.kind, fault.versions.text()) for fault in found.faults] == [
            (ProblemKind.MISSING_ACTION, "0 to 2")
        ]
    assert condition(tmp_path / "t").faults == ()


@pytest.mark.slow
@settings(max_examples=15)
@given(data=st.data())
def test_condition_agrees_with_loading(data: st.DataObject, tmp_path_factory: pytest.TempPathFactory) -> None:
    table = tmp_path_factory.mktemp("log") / "t"
    last = data.draw(st.integers(0, 5))
    log = make_log(table, last)
    for version in sorted(data.draw(st.sets(st.integers(0, last), max_size=3))):
        styles: list[CheckpointStyle] = data.draw(st.sampled_from([["classic"], ["classic", "v2-parquet"]]))
        for style in styles:
            checkpointed(log, version, style)
    for file in sorted(log.iterdir()):
        match data.draw(st.sampled_from(["", "", "", "", "delete", "empty", "garbage", "half"])):
            case "delete":
                file.unlink()
            case "empty":
                file.write_bytes(b"")
            case "garbage":
                file.write_bytes(b'{"add":\n')
            case "half":
                file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])
    found = condition(table, first=0)
    able = [version for version in range(last + 1) if loads(table, version)]
    if found.latest is None:
        assert not able
        assert found.faults
        return
    newest = max(able, default=None)
    assert found.newest_loadable == newest, (found, able)
    assert [*found.loadable] == able, (found, able)
    assert not set(able) & set(found.unloadable), (found, able)
    assert found.is_readable or found.mark == "error"
    if found.latest not in able:
        assert any(found.faults_at(found.latest)), found
    since = data.draw(st.integers(0, last))
    later = condition(table, first=since)
    assert [v for v in later.loadable if v >= since] == [v for v in able if v >= since], (later, since, able)
    assert not set(able) & set(later.unloadable), (later, since, able)
    sound = VersionRanges.of(data.draw(st.sets(st.sampled_from(able))) if able else ())
    first = sound.runs[0][1] + 1 if sound else 0
    known = condition(table, first=first, known=CommitFindings(sound=sound))
    assert [v for v in known.loadable if v >= first] == [v for v in able if v >= first], (known, sound, able)
    assert not set(known.commits_read) & set(sound)


class ChangingStore(FsspecLogStore):
    """Reads a log that a writer changes after the first listings, once after each."""

    def __init__(self, *changes: Callable[[], object]) -> None:
        super().__init__()
        self._changes = iter(changes)

    def list_from(self, path: str) -> Iterator[FileStatus]:
        found = [*super().list_from(path)]
        next(self._changes, lambda: None)()
        return iter(found)


def condition_while(table: Path, *changes: Callable[[], object]) -> TableCondition:
    """Return the condition of a whole log that changes after it was listed."""
    return TableLog(ChangingStore(*changes), f"{to_url(table)}/_delta_log").condition(first=0)


def test_log_that_is_cleaned_up_while_it_is_examined_has_no_fault(tmp_path: Path) -> None:
    log = make_log(tmp_path / "t", 6, checkpoint=4)
    found = condition_while(tmp_path / "t", partial(lose, log, *range(4)))
    assert (found.faults, [*found.loadable]) == ((), [4, 5, 6])


def test_clean_up_is_seen_although_another_commit_is_broken(tmp_path: Path) -> None:
    log = make_log(tmp_path / "t", 6, checkpoint=4)
    (log / commit_file(5)).write_text("{")
    found = condition_while(tmp_path / "t", partial(lose, log, *range(4)))
    assert [(fault.where.file or "").rpartition("/")[2] for fault in found.faults] == [commit_file(5)]
    assert [*found.loadable] == [4]


@pytest.mark.parametrize("cleans_up", [False, True], ids=["", "after a cleanup"])
def test_checkpoint_that_is_replaced_while_the_log_is_examined_is_no_fault(cleans_up: bool, tmp_path: Path) -> None:
    log = make_log(tmp_path / "t", 6, checkpoint=4)
    before = [partial(lose, log, *range(4))] if cleans_up else []
    found = condition_while(
        tmp_path / "t", *before, lambda: (log / checkpoint_file(4)).rename(log / multipart_checkpoint_files(4, 1)[0])
    )
    assert (found.faults, found.checkpoints_read) == ((), (multipart_checkpoint_files(4, 1)[0],))


def test_hint_at_a_checkpoint_that_is_written_while_the_log_is_examined_is_no_fault(tmp_path: Path) -> None:
    log = make_log(tmp_path / "t", 6, checkpoint=4)

    def write() -> None:
        checkpointed(log, 6)
        (log / "_last_checkpoint").write_text('{"version":6,"size":9}')

    assert condition_while(tmp_path / "t", write).faults == ()


def test_commit_that_is_deleted_while_the_log_is_examined_is_missing(tmp_path: Path) -> None:
    log = make_log(tmp_path / "t", 6, checkpoint=4)
    found = condition_while(tmp_path / "t", (log / commit_file(5)).unlink)
    assert [(fault.kind, [*fault.versions]) for fault in found.faults] == [(ProblemKind.MISSING_COMMIT, [5, 6])]


def test_only_wanted_commits_of_another_reader_are_added() -> None:
    def read(*versions: int) -> CommitFindings:
        return CommitFindings(
            versions={*versions},
            infos=dict.fromkeys(versions),
            actions={version: [version] for version in versions},
            marked={ProblemKind.EMPTY_COMMIT: {*versions}},
        )

    found = read(1)
    found.merge(read(2, 3), range(1, 3))
    assert found == read(1, 2)


def test_condition_names_a_missing_part(tmp_path: Path) -> None:
    log = make_log(tmp_path / "t", 6, checkpoint=4, style="multipart")
    names = multipart_checkpoint_files(4, 3)
    for file, name in zip(multipart_checkpoint_files(4, 2), names, strict=False):
        (log / file).rename(log / name)
    (fault,) = condition(tmp_path / "t").faults
    assert fault.kind == ProblemKind.CORRUPT_CHECKPOINT
    assert names[0] in fault.text
    assert "part 3 of 3 is missing" in fault.text
    checkpointed(log, 6)
    assert condition(tmp_path / "t").faults == ()


def test_condition_names_a_missing_sidecar(tmp_path: Path) -> None:
    log = make_log(tmp_path / "t", 6, checkpoint=4, style="v2-json-sidecars")
    file = sorted((log / "_sidecars").iterdir())[1]
    file.unlink()
    (fault,) = condition(tmp_path / "t").faults
    assert fault.kind == ProblemKind.CORRUPT_CHECKPOINT
    assert file.name in (fault.where.file or "").replace("%20", " ")


@pytest.mark.parametrize("missing", ["protocol", "metadata"])
def test_condition_reports_a_log_without_protocol_or_metadata(tmp_path: Path, missing: str) -> None:
    first = FIRST[1:] if missing == "protocol" else FIRST[:1]
    write_log(tmp_path / "t", {0: [*first, add("a")], 1: [add("b")]})
    found = condition(tmp_path / "t")
    (fault,) = found.faults
    assert fault.kind == ProblemKind.MISSING_ACTION
    assert missing in fault.text
    assert not found.loadable
