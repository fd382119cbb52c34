"""No file that `vacuum_candidates` lists as unprotected is needed, in any spelling of its path."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal
from unicodedata import normalize
from urllib.parse import quote

import pytest
from hypothesis import Phase, given, settings, strategies as st

from deltasnap_core import DeltaLog, SnapshotStore
from deltasnap_core.protocol.log_files.file_names import commit_file
from deltasnap_core.scan.tables import metadata_tables, vacuum_candidates as reasons
from deltasnap_core.scan.tables.named_files import OUTSIDE
from deltasnap_core.support import system_clock
from tests.builders import FIRST_COMMIT_MS, Action, add, metadata, remove, write_log
from tests.conftest import NOW_MS
from tests.core.scan.catalog_tables import FILES, write_catalog_managed
from tests.core.scan.tables.vacuum_candidates_builders import FIRST, VECTOR_FILE, PlainKeys, vector
from tests.driver_bases import use_driver_bases
from tests.thorough import one_in

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

OLD = FIRST_COMMIT_MS / 1000
YOUNG_MS = NOW_MS - 1000
NormalForm = Literal["NFC", "NFD"]


def touch(table: Path, *names: str) -> None:
    for name in names:
        file = table / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(b"?")
        os.utime(file, (OLD, OLD))


def candidates(spark: SparkSession, table: Path | str, version: int | None = None) -> dict[str, tuple[str, bool]]:
    """Return reason and protection of each listed file."""
    log = DeltaLog.for_table(spark, table, clock=lambda: NOW_MS)
    snapshot = log.update() if version is None else log.get_snapshot_at(version=version)
    frame = snapshot.tables.vacuum_candidates(list_files=True)
    return {row.path: (row.reason, row.protected) for row in frame.collect()}


def unprotected(reported: Mapping[str, tuple[str, bool]]) -> set[str]:
    return {path for path, (_, protected) in reported.items() if not protected}


def spellings(table: Path, name: str) -> list[str]:
    """Return the paths by which a log may name a file of a local table."""
    absolute, parent = f"{table}/{name}", f"{table}/x/.."
    plain = [
        name, f"./{name}", f"x/../{name}", f"x//..//{name}", f".//{name}", absolute, f"/{absolute}", f"//{absolute}",
        f"{parent}/{name}", f"{table}/./{name}", f"{table}//{name}", f"{table}/../{table.name}/{name}",
        f"../{table.name}/{name}",
    ]  # fmt: skip
    urls = [f"{scheme}{path}" for scheme in SCHEMES for path in (absolute, f"{parent}/{name}", f"{table}//{name}")]
    elsewhere = [f"/mnt/lake/{name}", f"file://other-host{absolute}", f"s3://lake/{name}", f"https://host/{name}?sig=x"]
    return [*map(quote_path, [*plain, *urls]), *elsewhere, escaped(name), *plain[:3]]


SCHEMES = ("file:", "file://", "FILE:", "File://", "file://localhost", "FILE://LOCALHOST")


def quote_path(path: str) -> str:
    return quote(path, safe="/:?=")


def escaped(name: str) -> str:
    return "".join(f"%{byte:02x}" for byte in name.encode())


@pytest.fixture
def plain_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reasons, "FileKeys", PlainKeys)


@pytest.mark.usefixtures("plain_keys")
def test_age_of_tombstones_and_files_decides(spark: SparkSession, tmp_path: Path) -> None:
    before = NOW_MS - 7 * 86_400_000
    gone = [
        *(remove(path, deletion_timestamp=before) for path in ("old", "young", "again")),
        remove("kept", deletion_timestamp=before + 1),
    ]
    live = [add("live", deletionVector=vector("u", "0" * 20)), add("again"), add("elsewhere/x")]
    change_data = "_change_data/expired", "_change_data/needed"
    changed = [[{"cdc": {"path": path, "partitionValues": {}, "size": 1}}] for path in change_data]
    log = write_log(tmp_path, {0: FIRST, 1: gone, 2: live, 3: changed[0], 4: changed[1]})
    for version in (3, 4):
        os.utime(log / commit_file(version), ns=((before + version - 3) * 1_000_000,) * 2)
    touch(tmp_path, "live", "again", "old", "young", "kept", "orphan", "new", "here/x", VECTOR_FILE, "elsewhere/x")
    touch(tmp_path, *change_data)
    for name, ms in {"old": before - 1, "orphan": before - 1, "young": before, "new": before}.items():
        os.utime(tmp_path / name, ns=(ms * 1_000_000, ms * 1_000_000))
    assert candidates(spark, tmp_path) == {
        "again": ("live file", True),
        "old": ("expired tombstone", False),
        "orphan": ("orphan", False),
        "young": (reasons.YOUNG_TOMBSTONE, True),
        "kept": ("tombstone has not expired", True),
        "new": ("orphan younger than the retention", True),
        "here/x": (reasons.SAME_NAME, True),
        "_change_data/expired": ("orphan", False),
    }


@pytest.mark.slow
@pytest.mark.usefixtures("plain_keys")
def test_one_unresolved_path_protects_all_files(spark: SparkSession, tmp_path: Path) -> None:
    write_log(tmp_path, {0: FIRST, 1: [add("a", deletionVector=vector("u", "no z85"))]})
    touch(tmp_path, "orphan")
    assert candidates(spark, tmp_path) == {"orphan": (reasons.UNRESOLVED_NAMES, True)}


@pytest.mark.spark
def test_live_files_and_their_vectors_are_needed_in_any_spelling_and_form(spark: SparkSession, tmp_path: Path) -> None:
    table = tmp_path / "events"
    count = len(spellings(table, ""))
    names = [f"Day=1/part {number}.parquet" for number in range(count)]
    paths = [spellings(table, name)[number] for number, name in enumerate(names)]
    vectors = [(f"v {number}.bin", vector("p", spellings(table, f"v {number}.bin")[number])) for number in range(count)]
    vectors += [(f"ab/{VECTOR_FILE}", vector("u", "ab" + "0" * 20)), (VECTOR_FILE, vector("u", "0" * 20))]
    forms: dict[str, tuple[NormalForm, NormalForm]] = {
        "é=한/a": ("NFC", "NFD"), "b é": ("NFC", "NFD"), "é=한/c": ("NFD", "NFC"), "d é": ("NFD", "NFC"),
    }  # fmt: skip
    logged = [normalize(form, name) for name, (_, form) in forms.items()]
    with_vectors = [add(f"f{number}", deletionVector=each) for number, (_, each) in enumerate(vectors)]
    adds = [add(path) for path in (*paths, *map(quote, logged[::2]), *logged[1::2])]
    write_log(table, {0: FIRST, 1: [*adds, *with_vectors]})
    orphans = {"Day=1/orphan.parquet", "é", "b é é"}
    touch(table, *names, *(name for name, _ in vectors), *(f"f{number}" for number in range(len(vectors))), *orphans)
    touch(table, *(normalize(form, name) for name, (form, _) in forms.items()))
    reported = candidates(spark, table)
    assert unprotected(reported) == orphans
    elsewhere = ("/mnt", "s3", "https", "file://o")
    assert {name for name in reported if name.startswith("Day=1/")} - orphans <= {
        name for name, path in zip(names, paths, strict=True) if path.startswith(elsewhere) or ".." in path
    }
    assert not {normalize(form, name) for name, (form, _) in forms.items()} & reported.keys()


@pytest.mark.spark
@pytest.mark.thorough
@pytest.mark.parametrize(
    "unresolved",
    [
        add("a", deletionVector=vector("u", "no z85")),
        add("a", deletionVector=vector("x", "a")),
        add("%ff"),
        add("."),
        remove("a", deletion_timestamp=YOUNG_MS, deletionVector=vector("u", "no z85")),
    ],
)
def test_unresolvable_path_protects_all_files(spark: SparkSession, tmp_path: Path, unresolved: Action) -> None:
    table = tmp_path / "events"
    write_log(table, {0: FIRST, 1: [unresolved, add("gone")], 2: [remove("gone")]})
    touch(table, "orphan", "gone", "a")
    reported = candidates(spark, table)
    assert unprotected(reported) == set()
    assert reported["orphan"] == reported["gone"] == (reasons.UNRESOLVED_NAMES, True)


@pytest.mark.spark
@pytest.mark.thorough
def test_table_opened_through_a_link_is_the_same_table(spark: SparkSession, tmp_path: Path) -> None:
    real, link, other = tmp_path / "real" / "Events", tmp_path / "link", tmp_path / "other"
    real.mkdir(parents=True)
    link.symlink_to(real)
    other.symlink_to(real.parent)
    names = {"a": f"{real}/a", "b": f"{link}/b", "c": f"{other}/Events/c", "d": "d"}
    write_log(real, {0: FIRST, 1: [add(path) for path in names.values()]})
    touch(real, *names, "orphan")
    for table in (real, link, other / "Events"):
        assert unprotected(candidates(spark, table)) == {"orphan"}


@pytest.mark.spark
def test_links_and_their_targets_are_never_listed(spark: SparkSession, tmp_path: Path) -> None:
    table, outside = tmp_path / "events", tmp_path / "outside"
    touch(outside, "day=2/part")
    touch(table, "real/part", "data.parquet", "day=3/kept", "orphan")
    (table / "day=1").symlink_to(table / "real")
    (table / "day=2").symlink_to(outside / "day=2")
    (table / "link.parquet").symlink_to("data.parquet")
    (table / "dangling").symlink_to("nowhere")
    named = ("day=1/part", "day=2/part", "link.parquet", "day=2/../../events/day=3/kept")
    write_log(table, {0: FIRST, 1: [add(name) for name in named]})
    reported = candidates(spark, table)
    assert unprotected(reported) == {"orphan"}
    assert reported["real/part"] == reported["data.parquet"] == (reasons.LINKED, True)


@pytest.mark.spark
@pytest.mark.thorough
def test_files_of_versions_around_the_requested_one_are_protected(spark: SparkSession, tmp_path: Path) -> None:
    log = write_log(
        tmp_path,
        {
            0: FIRST,
            1: [add("removed-lately"), add("removed-long-ago"), add("added-again")],
            2: [remove("added-again"), remove("removed-long-ago")],
            3: [remove("removed-lately", deletion_timestamp=YOUNG_MS)],
            4: [add("later"), {"cdc": {"path": "_change_data/c%201", "partitionValues": {}, "size": 1}}],
            5: [add("./added-again")],
        },
    )
    os.utime(log / commit_file(4), (YOUNG_MS / 1000, YOUNG_MS / 1000))
    touch(tmp_path, "removed-lately", "removed-long-ago", "added-again", "later", "_change_data/c 1", "_change_data/o")
    for version in (1, 2, 5):
        expected = {"_change_data/o"} if version == 1 else {"_change_data/o", "removed-long-ago"}
        assert unprotected(candidates(spark, tmp_path, version)) == expected
    store = SnapshotStore.open(spark, tmp_path.parent / f"{tmp_path.name}-store")
    store.write_range("events", DeltaLog.for_table(spark, tmp_path, clock=lambda: NOW_MS), 0, 2)
    reported = {row.path: row.reason for row in store.tables("events", 2).vacuum_candidates(list_files=True).collect()}
    assert "later" not in reported
    (tmp_path / "_delta_log").rename(tmp_path / "_gone")
    reported = {row.path: row.reason for row in store.tables("events", 2).vacuum_candidates(list_files=True).collect()}
    assert reported["later"] == reported["removed-long-ago"] == reasons.LOG_IS_GONE


@pytest.mark.usefixtures("plain_keys")
def test_age_change_data_hidden_folders_and_other_tables_keep_files(spark: SparkSession, tmp_path: Path) -> None:
    of_commits = [[{"cdc": {"path": f"_change_data/{n}", "partitionValues": {}, "size": 1}}] for n in (1, 2)]
    expired = [remove("rewritten"), remove("a", deletionVector=vector("u", "no z85"))]
    described = metadata(partitionColumns=["_p"])
    log = write_log(tmp_path, {0: (FIRST[0], described), 1: expired, 2: of_commits[0], 3: of_commits[1]})
    os.utime(log / commit_file(3), (YOUNG_MS / 1000, YOUNG_MS / 1000))
    write_log(tmp_path / "sub" / "table", {0: FIRST})
    hidden = "_hidden/a", "_x=1/a", ".a", "metadata/v1.json", "converted/metadata/v1.json", os.fsdecode(b"\xff")
    recorded = "_change_data/1", "_change_data/2"
    touch(tmp_path, *hidden, *recorded, "_p=1/a", "sub/table/a", "old", "rewritten", "zero")
    os.utime(tmp_path / "rewritten", (YOUNG_MS / 1000, YOUNG_MS / 1000))
    os.utime(tmp_path / "zero", (0, 0))
    reported = candidates(spark, tmp_path)
    assert unprotected(reported) == {"old", "_p=1/a", "_change_data/1"}
    assert {path: reason for path, (reason, is_kept) in reported.items() if is_kept} == {
        "sub/table/a": reasons.NESTED,
        "rewritten": reasons.YOUNG_TOMBSTONE,
        "zero": reasons.UNKNOWN_AGE,
    }
    tables = DeltaLog.for_table(spark, tmp_path, clock=lambda: NOW_MS).update().tables
    longer = tables.vacuum_candidates(list_files=True, retention_ms=NOW_MS)
    assert not {row.path for row in longer.collect()} & set(recorded)


@pytest.mark.usefixtures("plain_keys")
@pytest.mark.parametrize("newest", [90, 1])
def test_retention_is_the_longer_one_of_the_version_and_of_the_newest(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, newest: int
) -> None:
    def kept_for(days: int) -> Action:
        return metadata(configuration={"delta.deletedFileRetentionDuration": f"interval {days} days"})

    removed = remove("removed", deletion_timestamp=system_clock() - 30 * 86_400_000)
    table = tmp_path / "t"
    write_log(table, {0: [FIRST[0], kept_for(7)], 1: [add("removed")], 2: [removed], 3: [kept_for(newest)]})
    touch(table, "removed")
    use_driver_bases(monkeypatch)
    log = DeltaLog.for_table(spark, table)
    store = SnapshotStore.open(spark, tmp_path / "store")
    store.write_range("events", log, 0, 2)
    earlier = log.get_snapshot_at(version=2).tables
    longer = max(newest, 7) * 86_400_000
    if newest == 90:
        summary = earlier.vacuum_summary()
        assert (summary.num_files, summary.retention_ms) == (0, longer)
    used: list[int] = []
    monkeypatch.setattr(metadata_tables, "vacuum_candidates", lambda _, named, **__: used.append(named.retention_ms))
    for tables in (earlier, store.tables("events", 2), log.snapshot.tables):
        tables.vacuum_candidates()
    assert used == [longer, longer, newest * 86_400_000]


@pytest.mark.usefixtures("plain_keys")
@pytest.mark.parametrize("feature", one_in(2, ["catalogManaged", "catalogOwned-preview"]))
def test_no_file_of_a_catalog_managed_table_is_deleted_without_its_catalog(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, feature: str
) -> None:
    use_driver_bases(monkeypatch)
    write_catalog_managed(tmp_path / "events", feature=feature)
    touch(tmp_path / "events", *FILES, "orphan")
    expected = dict.fromkeys(("b.parquet", "c.parquet", "orphan"), (reasons.CATALOG_IS_UNKNOWN, True))
    assert candidates(spark, tmp_path / "events") == expected
    store = SnapshotStore.open(spark, tmp_path / "store")
    store.write_range("events", DeltaLog.for_table(spark, tmp_path / "events", clock=lambda: NOW_MS), 0, 0)
    stored = store.tables("events", 0).vacuum_candidates(list_files=True).collect()
    assert {row.path: (row.reason, row.protected) for row in stored} == expected


@pytest.mark.thorough
@pytest.mark.usefixtures("plain_keys")
@pytest.mark.parametrize("version", range(3))
def test_files_of_ratified_commits_are_needed(spark: SparkSession, tmp_path: Path, version: int) -> None:
    tail = write_catalog_managed(tmp_path)
    touch(tmp_path, *FILES, "orphan")
    log = DeltaLog.for_table(spark, tmp_path, clock=lambda: NOW_MS)
    tables = log.get_snapshot_at(version, log_tail=tail, max_catalog_version=2).tables
    reported = {row.path: row.protected for row in tables.vacuum_candidates(list_files=True).collect()}
    assert reported == {"orphan": False}
    assert [group.reason for group in tables.vacuum_summary().deleted] == ["orphan"]


@pytest.mark.usefixtures("plain_keys")
def test_commits_published_after_the_catalog_was_queried_protect_files(spark: SparkSession, tmp_path: Path) -> None:
    tail = write_catalog_managed(tmp_path)
    touch(tmp_path, *FILES, "orphan")
    log = DeltaLog.for_table(spark, tmp_path, clock=lambda: NOW_MS)
    tables = log.update(log_tail=tail[:1], max_catalog_version=1).tables
    write_log(tmp_path, {1: [add("b.parquet")], 2: [add("c.parquet")]})
    assert {row.path for row in tables.vacuum_candidates(list_files=True).collect()} == {"orphan"}


@pytest.mark.spark
def test_without_listing_only_expired_files_of_the_table_are_unprotected(spark: SparkSession, tmp_path: Path) -> None:
    write_log(tmp_path, {
        0: FIRST,
        1: [remove(path) for path in ("a", "b/../c", "/source/d", "s3://source/e", "%ff", "live")],
        2: [add("x/../live"), remove("f", deletion_timestamp=YOUNG_MS)],
    })  # fmt: skip
    log = DeltaLog.for_table(spark, tmp_path, clock=lambda: NOW_MS)
    rows = log.get_snapshot_at(version=1).tables.vacuum_candidates().collect()  # version 2 also needs files
    assert {row.path for row in rows if not row.protected} == {"a", "b/../c"}
    assert {row.reason for row in rows} == {
        "expired tombstone", "live file", "tombstone has not expired", OUTSIDE,
    }  # fmt: skip


@pytest.mark.spark
def test_object_keys_are_protected_literally_and_as_by_hadoop(spark: SparkSession, s3_options: dict[str, Any]) -> None:
    import fsspec

    s3, table = fsspec.filesystem("s3", **s3_options), "lake/vacuumed/events"
    named = {
        "a//b": "a//b", "c": "x/..//c", "d/../e": "d/../e", "f": "s3a://lake/vacuumed//events/f", "g": "S3N://lake/vacuumed/events/g",
        "h": "/vacuumed/events/h", "i": "s3://other/source/i", "J": "j",
    }  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        log = write_log(Path(folder), {0: FIRST, 1: [add(path) for path in named.values()]})
        for file in log.iterdir():
            s3.pipe_file(f"{table}/_delta_log/{file.name}", file.read_bytes())
    for key in (*named, "orphan"):
        s3.call_s3("put_object", Bucket="lake", Key=f"vacuumed/events/{key}", Body=b"?")
    log_ = DeltaLog.for_table(spark, f"s3://{table}", s3_options, clock=lambda: NOW_MS * 2)
    reported = {row.path: row.protected for row in log_.update().tables.vacuum_candidates(list_files=True).collect()}
    assert {path for path, protected in reported.items() if not protected} == {"orphan"}
    DeltaLog.clear_cache()


@dataclass(frozen=True)
class Life:
    """The life of a file: the versions that add and remove it, with the spelling of its path."""

    name: str
    actions: Sequence[tuple[int, bool, int]]
    removed_lately: bool


PARTS = st.text(
    st.characters(codec="utf-8", exclude_characters="/\\\0\ufffd", exclude_categories=["Cs"]), min_size=1, max_size=6
)
NAMES = st.lists(PARTS.filter(lambda part: part.strip(".")), min_size=1, max_size=3).map("/".join)


@st.composite
def lives(draw: st.DrawFn) -> Life:
    versions = sorted(draw(st.sets(st.integers(1, 5), max_size=4)))
    spelled = [draw(st.integers(0, 10**6)) for _ in versions]
    actions = [(version, number % 2 == 0, spelled[number]) for number, version in enumerate(versions)]
    return Life(f"{draw(NAMES)}.f", actions, draw(st.booleans()))


@pytest.mark.spark
@pytest.mark.thorough
@settings(max_examples=3, phases=[Phase.generate])
@given(files=st.lists(lives(), min_size=60, max_size=120, unique_by=lambda life: life.name.lower()), data=st.data())
def test_no_listed_file_is_live_while_retained(spark: SparkSession, files: list[Life], data: st.DataObject) -> None:
    with tempfile.TemporaryDirectory() as folder:
        table = Path(folder) / "Lake 1%41" / "events"
        by_version: dict[int, list[Action]] = {0: list(FIRST), **{version: [] for version in range(1, 6)}}
        needed = set()
        for life in files:
            paths = [quote_path(path) for path in spellings_unquoted(table, life.name)]
            for version, is_add, number in life.actions:
                path = paths[number % len(paths)]
                removed_at = YOUNG_MS if life.removed_lately else FIRST_COMMIT_MS
                by_version[version].append(add(path) if is_add else remove(path, deletion_timestamp=removed_at))
            if life.actions and (life.actions[-1][1] or life.removed_lately):
                needed.add(life.name)
        write_log(table, by_version)
        try:
            touch(table, "orphan", *(life.name for life in files))
        except OSError:  # a file in place of a folder, or a name that is too long
            return
        version = data.draw(st.integers(0, 5))
        listed = unprotected(candidates(spark, table, version))
        assert not listed & needed
        assert "orphan" in listed


def spellings_unquoted(table: Path, name: str) -> list[str]:
    absolute = f"{table}/{name}"
    plain = [name, f"./{name}", f"x/../{name}", f".//{name}", absolute, f"/{absolute}", f"{table}/x/../{name}"]
    return [*plain, *(f"{scheme}{path}" for scheme in SCHEMES for path in (absolute, f"{table}/x//..//{name}"))]
