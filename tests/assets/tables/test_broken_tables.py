"""Tables broken in every known way: their page, checks and refresh, on a real instance.

The driver writes the bases, so that these tests need no JVM.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import dagster as dg
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

pytestmark = pytest.mark.usefixtures("spark")
pytest.importorskip("deltalake")

if TYPE_CHECKING:
    from collections.abc import Callable


from deltasnap_assets.runs.condition.log_conditions import BrokenTableError  # noqa: E402
from deltasnap_assets.runs.refresh import RefreshError  # noqa: E402
from deltasnap_assets.runs.sensors import new_commits_sensor  # noqa: E402
from deltasnap_core import DeltaTableNotFoundError  # noqa: E402
from deltasnap_core.protocol.log_files.file_names import checkpoint_file, commit_file  # noqa: E402
from tests.assets.jobs import idle_job, skip_message, ticked  # noqa: E402
from tests.assets.tables.assets_builders import App, evaluations  # noqa: E402
from tests.assets.tables.broken_tables_builders import statuses  # noqa: E402
from tests.builders import commit_info, flip_bytes, multipart_checkpoint_files, protocol  # noqa: E402
from tests.driver_bases import spark  # noqa: E402, F401
from tests.thorough import one_in  # noqa: E402

LOG = dg.AssetKey(["events", "delta_log"])


def log_folder(app: App) -> Path:
    return app.path / "_delta_log"


def page(app: App) -> dict[str, Any]:
    (record,) = app.instance.fetch_observations(LOG, limit=1).records
    assert record.asset_observation is not None
    return {name: entry.value for name, entry in record.asset_observation.metadata.items()}


def observations(app: App) -> list[dg.AssetObservation]:
    records = app.instance.fetch_observations(LOG, limit=1000).records
    return [record.asset_observation for record in reversed(records) if record.asset_observation is not None]


def with_checkpoint(app: App, versions: int) -> Path:
    """Grow the table and write a checkpoint of its newest version."""
    from deltalake import DeltaTable

    app.grow(versions)
    DeltaTable(app.path).create_checkpoint()
    return log_folder(app) / checkpoint_file(versions - 1)


def in_pages(file: Path) -> None:
    flip_bytes(file, 200)


def in_footer(file: Path) -> None:
    flip_bytes(file, file.stat().st_size - 450)


def emptied(file: Path) -> None:
    file.write_bytes(b"")


def truncated(file: Path) -> None:
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])


def without_a_part(file: Path) -> None:
    names = multipart_checkpoint_files(int(file.name.partition(".")[0]), 2)
    file.rename(file.with_name(names[0]))


@pytest.mark.slow
@pytest.mark.parametrize("damage", one_in(2, [in_pages, in_footer, without_a_part, emptied, truncated]))
def test_damaged_checkpoint_is_a_warning_and_never_ok(tmp_path: Path, damage: Callable[[Path], None]) -> None:
    app = App(tmp_path, checks={"max_small_file_ratio": 1, "max_tombstone_ratio": 1})
    file = with_checkpoint(app, 6)
    damage(file)
    assert app.refresh() == tuple(range(6))
    health = page(app)["health"]
    assert not health.startswith("OK")
    assert "The checkpoint of version 5 cannot be read" in health
    assert "the 6 commits from version 0 on" in health
    assert "Other readers" in health
    reported = evaluations(app, None)
    check = reported["readable_checkpoint"]
    assert (check.passed, check.severity) == (False, dg.AssetCheckSeverity.WARN)
    assert check.description is not None
    assert f"{5:020d}.checkpoint" in check.description
    assert reported["contiguous_log"].passed
    assert page(app)["num_of_files"] == len(live_paths_of_log(app, 5))
    assert app.refresh() == ()
    assert page(app)["health"] == health


def live_paths_of_log(app: App, version: int) -> set[str]:
    """The files of a version, from its commits."""
    found: set[str] = set()
    for each in range(version + 1):
        for line in (log_folder(app) / commit_file(each)).read_text().splitlines():
            action = json.loads(line)
            found |= {action["add"]["path"]} if "add" in action else set()
            found -= {action["remove"]["path"]} if "remove" in action else set()
    return found


def without_a_file(file: Path) -> None:
    """Remove the first file from a checkpoint."""
    rows = pq.read_table(file)
    paths = pc.struct_field(rows["add"].combine_chunks(), "path")
    pq.write_table(rows.filter(pc.invert(pc.fill_null(pc.equal(paths, pc.min(paths)), False))), file)


@pytest.mark.slow
def test_checkpoint_that_lacks_a_file_is_found_when_its_version_is_stored(tmp_path: Path) -> None:
    app = App(tmp_path, max_versions_per_run=2)
    without_a_file(with_checkpoint(app, 4))
    assert app.refresh() == tuple(range(4))
    assert "The checkpoint of version 3 contradicts the stored version" in page(app)["health"]


@pytest.mark.slow
def test_checkpoint_that_lacks_a_file_is_a_warning_until_it_is_replaced(tmp_path: Path) -> None:
    from deltalake import DeltaTable

    app = App(tmp_path, checks={"max_small_file_ratio": 1, "max_tombstone_ratio": 1})
    with_checkpoint(app, 3)
    assert app.refresh() == (0, 1, 2)
    file = with_checkpoint(app, 6)
    without_a_file(file)
    for versions in (6, 7):
        app.grow(versions)
        app.refresh()
        assert "The checkpoint of version 5 contradicts the stored version" in page(app)["health"]
        assert not evaluations(app, None)["readable_checkpoint"].passed
    file.unlink()
    (log_folder(app) / "_last_checkpoint").unlink()
    DeltaTable(app.path).create_checkpoint()
    app.refresh()
    assert page(app)["health"].startswith("OK: ")
    assert evaluations(app, None)["readable_checkpoint"].passed


@pytest.mark.slow
def test_repaired_checkpoint_is_reported_without_a_new_commit(tmp_path: Path) -> None:
    app = App(tmp_path)
    file = with_checkpoint(app, 4)
    sound = file.read_bytes()
    in_footer(file)
    app.refresh()
    assert "cannot be read" in page(app)["health"]
    file.write_bytes(sound)
    assert app.refresh() == (3,)
    assert "cannot be read" not in page(app)["health"]
    assert evaluations(app, None)["readable_checkpoint"].passed


@pytest.mark.slow
def test_gap_stores_loadable_versions_and_names_the_rest(tmp_path: Path) -> None:
    app = App(tmp_path)
    app.grow(6)
    (log_folder(app) / commit_file(3)).unlink()
    with pytest.raises(BrokenTableError, match="The commit of version 3 is missing"):
        app.refresh()
    assert app.materialized("all_files") == {"0", "1", "2"}
    (check, reported) = evaluations(app, None)["contiguous_log"], page(app)
    assert (check.passed, check.severity) == (False, dg.AssetCheckSeverity.ERROR)
    assert "Of versions 0 to 5, 3 cannot be loaded: 3 to 5." in (check.description or "")
    assert reported["health"].startswith("The commit of version 3 is missing")
    assert "deltasnap repair" in reported["health"]
    assert "| 3 to 5 | the commit of version 3 is missing |" in reported["cannot_be_loaded"]
    assert reported["numbers_of"] == "version 2, the last good one"
    assert reported["num_of_files"] == len(live_paths_of_log(app, 2))
    assert not any(status == "EXECUTION_FAILED" for status in statuses(app).values())


@pytest.mark.slow
def test_garbage_commit_keeps_the_last_good_numbers_and_links_the_failed_run(tmp_path: Path) -> None:
    app = App(tmp_path)
    app.grow(4)
    app.refresh()
    good = page(app)
    app.grow(6)
    (log_folder(app) / commit_file(4)).write_text('{"add":{"path":"a"}\ngarbage\n')
    with pytest.raises(RefreshError, match=commit_file(4)):
        app.refresh()
    assert app.materialized("reconstructed_state") == {"0", "1", "2", "3"}
    assert app.load("computed_state", 3).num_of_files == good["num_of_files"]
    reported = page(app)
    assert reported["health"].startswith("Version 4 cannot be read: ")
    assert f"{commit_file(4)}, line 1" in reported["health"]
    assert "_delta_log/" not in reported["checks_not_evaluated"]
    assert {name: reported[name] for name in ("num_of_files", "contents")} == {
        name: good[name] for name in ("num_of_files", "contents")
    }
    assert reported["numbers_of"] == "version 3, the last good one"
    (failed,) = app.instance.get_runs(dg.RunsFilter(statuses=[dg.DagsterRunStatus.FAILURE]))
    assert reported["failed_run"] == failed.run_id
    assert not evaluations(app, None)["contiguous_log"].passed
    assert not any(status == "EXECUTION_FAILED" for status in statuses(app).values()), statuses(app)
    with pytest.raises(BrokenTableError, match="Version 4 cannot be read"):
        app.refresh()  # a known fault starts no other run
    assert len(app.instance.get_runs(dg.RunsFilter(statuses=[dg.DagsterRunStatus.FAILURE]))) == 1


@pytest.mark.slow
def test_garbage_commit_of_a_new_table_stores_the_versions_before_it(tmp_path: Path) -> None:
    app = App(tmp_path)
    app.grow(9)
    (log_folder(app) / commit_file(6)).write_text("garbage\n")
    with pytest.raises((RefreshError, BrokenTableError)):
        app.refresh()
    assert app.materialized("all_files") == {str(version) for version in range(6)}
    assert page(app)["health"].startswith("Version 6 cannot be read: ")
    assert page(app)["num_of_files"] == len(live_paths_of_log(app, 5))


@pytest.mark.slow
def test_unsupported_feature_fails_one_check_and_skips_other_checks(tmp_path: Path) -> None:
    app = App(tmp_path)
    app.grow(3)
    app.refresh()
    asks = protocol(3, 7, readerFeatures=["madeUp"], writerFeatures=["madeUp"])
    lines = "".join(json.dumps(action) + "\n" for action in (commit_info("UPGRADE"), asks))
    (log_folder(app) / commit_file(3)).write_text(lines)
    with pytest.raises(RefreshError, match=r"Version 3 .* madeUp"):
        app.refresh()
    found = statuses(app)
    assert found.pop("readable_protocol") == "FAILED"
    for name in ("fresh_table", "cleanup_orphans"):  # they need no version: only the listing
        assert found.pop(name) == "SUCCEEDED"
    assert set(found.values()) == {"SKIPPED"}, found
    assert "needs the reader features madeUp" in (evaluations(app, None)["readable_protocol"].description or "")
    reported = page(app)
    assert "needs the reader features madeUp" in reported["health"]
    assert "not evaluated: " in reported["checks_not_evaluated"]
    assert reported["numbers_of"] == "version 2, the last good one"


@pytest.mark.slow
def test_dropped_table_keeps_its_last_known_facts(tmp_path: Path) -> None:
    app = App(tmp_path)
    app.grow(3)
    app.refresh()
    good = page(app)
    shutil.rmtree(app.path)
    with pytest.raises(BrokenTableError, match="No Delta table at"):
        app.refresh()
    reported = page(app)
    assert reported["health"].startswith("No Delta table at ")
    assert "there is no such folder." in reported["health"]
    assert reported["num_of_files"] == good["num_of_files"]
    assert reported["numbers_of"] == "version 2, the last good one"
    found = statuses(app)
    assert (found["contiguous_log"], found["readable_checkpoint"]) == ("FAILED", "SKIPPED")
    assert (found["checkpoint_lag"], found["fresh_table"], found["small_files"]) == ("SKIPPED", "SKIPPED", "SUCCEEDED")


@pytest.mark.slow
def test_wrong_path_of_a_new_table_is_one_line(tmp_path: Path) -> None:
    app = App(tmp_path)
    with pytest.raises(BrokenTableError, match="No Delta table at"):
        app.refresh()
    assert page(app)["health"].startswith("No Delta table at ")
    app.grow(2)
    assert app.refresh() == (0, 1)
    assert "No Delta table" not in page(app)["health"]


@pytest.mark.slow
def test_run_that_fails_on_storage_keeps_numbers_and_is_linked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from deltasnap_core.errors import StorageError
    from deltasnap_core.store.writing.store_writer import StoreWriter

    app = App(tmp_path)
    app.grow(3)
    app.refresh()
    good = page(app)

    def refuse(*_: object, **__: object) -> None:
        raise StorageError(path="s3://key:hunter2@lake/store", reason=reason)

    app.grow(4)
    with monkeypatch.context() as patched:
        patched.setattr(StoreWriter, "write", refuse)
        for reason in ("first", "second", "third"):  # each failed run in a row has its own
            with pytest.raises(RefreshError, match=reason):
                app.refresh()
    reported = page(app)
    assert reported["health"].startswith("The last run failed: ")
    assert "hunter2" not in str(reported)
    assert reported["num_of_files"] == good["num_of_files"]
    newest, *_ = app.instance.get_runs(dg.RunsFilter(statuses=[dg.DagsterRunStatus.FAILURE]))
    assert reported["failed_run"] == newest.run_id
    assert not any(status == "EXECUTION_FAILED" for status in statuses(app).values())
    assert app.refresh() == (3,)
    assert "The last run failed" not in page(app)["health"]
    assert "failed_run" not in page(app)


@pytest.mark.slow
def test_each_batch_of_commits_has_one_observation_with_all_its_numbers(tmp_path: Path) -> None:
    app = App(tmp_path)
    for versions in (2, 4, 5):
        app.grow(versions)
        app.refresh()
        app.refresh()
    found = observations(app)
    assert [seen.data_version for seen in found] == ["1", "3", "4"]
    for seen in found:
        assert next(iter(seen.metadata)) == "health"
        assert {"num_of_files", "dagster/size_bytes", "tombstones", "checkpoint_lag", "latest_version"} <= set(
            seen.metadata
        )


@pytest.mark.slow
def test_sensor_reports_a_known_fault_once_and_then_waits(tmp_path: Path) -> None:
    app = App(tmp_path)
    app.grow(3)
    app.refresh()
    shutil.rmtree(app.path)
    sensor, cursor = new_commits_sensor(app.settings, app.table, [idle_job]), None
    with pytest.raises(DeltaTableNotFoundError):
        sensor(dg.build_sensor_context(instance=app.instance, cursor=cursor))
    before = len(observations(app))
    for _ in range(2):
        result = ticked(sensor, app.instance, cursor)
        cursor = result.cursor
        assert "is broken: No Delta table" in skip_message(result)
    assert len(observations(app)) == before
