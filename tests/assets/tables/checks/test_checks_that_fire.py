"""Every check, in a run of a table that fails it: description and advice. The driver writes the bases: no JVM."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from deltasnap_assets.checks.registry import CHECKS
from deltasnap_assets.runs.planning.names import job_name, run_tags
from deltasnap_assets.runs.refresh import RefreshError
from deltasnap_core.protocol.log_files.file_names import checksum_file, commit_file
from tests.assets.tables.assets_builders import QUIET, App, evaluations
from tests.assets.tables.broken_tables_builders import statuses
from tests.builders import add, commit_info, metadata, mtime_of, protocol, remove, write_log
from tests.driver_bases import use_driver_bases

ADVICE = {check.name: check.advice for check in CHECKS}
DAYS = [f"2026-03-0{number}" for number in range(1, 7)]
LIMITS = {"max_commits_since_checkpoint": 3, "max_growth_factor": 2}
EXPECTED = {
    "checkpoint_lag": "9 commits and no checkpoint, at most 3 expected.",
    "checksum_agrees": "The log differs from 1 checksum: version 8: table_size_bytes, num_files.",
    "small_files": "files are smaller than 16 MiB (100%, at most 50% expected).",
    "tombstone_ratio": "tombstones and",
    "expired_tombstones": "the retention of 30 files (2.9 KiB) had ended",  # the last version was committed in time
    "fresh_table": "expected (three times the longest recent pause, at least a day).",
    "statistics_coverage": "files have no statistics (0% have some, at least 90% expected).",
    "even_partitions": "day=2026-03-06",
    "schema_unchanged": "Version 7 changed the schema: column more added (bigint)",
    "steady_growth": "Version 8 made the table grow by",
}
# The advice of these depends on the table.
ADVICE_OF_TABLE = {"small_files": "Run `OPTIMIZE`: "}
# Each of these has a separate table below.
TRIED_ALONE = {"contiguous_log", "readable_checkpoint", "readable_protocol", "cleanup_orphans"}
OFF_BY_DEFAULT = {"rows_expected", "null_share", "max_not_in_future", "columns_within"}


def file_of(day: str, name: str, size: int) -> dict[str, Any]:
    return add(f"day={day}/{name}.parquet", size=size, partitionValues={"day": day})


def schema(*columns: str) -> dict[str, Any]:
    fields = [{"name": name, "type": "long", "nullable": True, "metadata": {}} for name in columns]
    fields.append({"name": "day", "type": "string", "nullable": True, "metadata": {}})
    return metadata(partitionColumns=["day"], schemaString=json.dumps({"type": "struct", "fields": fields}))


def write_unkempt_table(path: Path) -> None:
    """Nine versions: small files without statistics, most of them replaced; a schema change; one day far larger."""
    commits: dict[int, list[dict[str, Any]]] = {0: [commit_info("CREATE TABLE"), protocol(), schema("id")]}
    for version in range(1, 7):
        commits[version] = [file_of(day, f"{version}-{day}", 100 + version) for day in DAYS]
        commits[version] += [file_of(day, f"kept-{version}-{day}", 10) for day in DAYS if version < 3]
        commits[version] += [
            remove(f"day={day}/{version - 1}-{day}.parquet", size=100, deletion_timestamp=mtime_of(version))
            for day in DAYS
            if version > 1
        ]
    commits[7] = [commit_info("ADD COLUMNS"), schema("id", "more")]
    commits[8] = [file_of(DAYS[-1], "large", 2_000)]
    log = write_log(path, commits)
    reported = {"tableSizeBytes": 1, "numFiles": 1, "numMetadata": 1, "numProtocol": 1}
    (log / checksum_file(8)).write_text(json.dumps(reported), encoding="utf-8")


@pytest.fixture(scope="module", autouse=True)
def _no_session() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patched:
        use_driver_bases(patched)
        yield


@pytest.fixture(scope="module")
def unkempt(tmp_path_factory: pytest.TempPathFactory) -> App:
    app = App(tmp_path_factory.mktemp("unkempt"), checks=LIMITS)
    write_unkempt_table(app.path)
    with pytest.raises(RefreshError, match="computed_state: checksum_agrees"):  # it blocks downstream assets
        app.refresh()
    return app


@pytest.fixture(scope="module")
def reported(unkempt: App) -> dict[str, Any]:
    """The last unpartitioned result of each check."""
    return evaluations(unkempt, None)


@pytest.mark.parametrize("name", sorted(EXPECTED))
def test_check_fails_with_advice(name: str, reported: dict[str, Any]) -> None:
    assert not reported[name].passed, reported[name].description
    assert EXPECTED[name] in reported[name].description
    assert f"What to do: {ADVICE_OF_TABLE.get(name, ADVICE[name])}" in reported[name].description


def test_every_check_has_a_failing_case() -> None:
    assert set(EXPECTED) | TRIED_ALONE | OFF_BY_DEFAULT == set(ADVICE)


def test_versions_that_a_cleanup_would_orphan_are_named(tmp_path: Path) -> None:
    app, now = App(tmp_path), time.time()
    log = write_log(app.path, {0: [protocol(), schema("id")], **{v: [commit_info()] for v in range(1, 5)}})
    for version, days in enumerate((60, 40, 5, 4, 3)):
        os.utime(log / commit_file(version), (now - days * 86_400, now - days * 86_400))
    app.refresh()
    found = evaluations(app, None)["cleanup_orphans"]
    assert not found.passed
    assert "versions 2 to 4 unreadable" in (found.description or "")
    assert "`deltasnap checkpoint PATH --version 2`" in (found.description or "")


@pytest.mark.slow
def test_refresh_evaluates_a_failed_check_again_though_no_version_is_new(tmp_path: Path) -> None:
    app = App(tmp_path)
    log = write_log(app.path, {0: [commit_info("CREATE TABLE"), protocol(), schema("id")]})
    reported = {"tableSizeBytes": 1, "numFiles": 1, "numMetadata": 1, "numProtocol": 1}
    (log / checksum_file(0)).write_text(json.dumps(reported), encoding="utf-8")
    for _ in range(2):
        with pytest.raises(RefreshError, match="computed_state: checksum_agrees"):
            app.refresh()
    (log / checksum_file(0)).unlink()
    app.refresh()
    assert statuses(app)["checksum_agrees"] == "SKIPPED"


@pytest.mark.slow
def test_refresh_reports_the_versions_that_a_run_stored_before_a_check_blocked_it(tmp_path: Path) -> None:
    app, stored = App(tmp_path), list[int]()
    log = write_log(app.path, {0: [protocol(), schema("id")], 1: [file_of(DAYS[0], "1", 100)]})
    reported = {"tableSizeBytes": 1, "numFiles": 1, "numMetadata": 1, "numProtocol": 1}
    (log / checksum_file(1)).write_text(json.dumps(reported), encoding="utf-8")
    with pytest.raises(RefreshError, match="computed_state: checksum_agrees"):
        app.refresh(on_stored=stored.extend)
    assert stored == [0, 1]


@pytest.mark.slow
@pytest.mark.usefixtures("reported")  # before the run replaces results
def test_earlier_version_is_materialized_though_the_newest_checksum_is_wrong(unkempt: App) -> None:
    job = unkempt.defs.resolve_job_def(job_name("events"))
    result = job.execute_in_process(
        instance=unkempt.instance, tags=run_tags("events", 3, 3), run_config=QUIET, raise_on_error=False
    )
    assert result.success


@pytest.mark.slow
def test_failed_version_passes_after_the_next_good_one(unkempt: App, reported: dict[str, Any]) -> None:
    assert not reported["schema_unchanged"].passed
    assert not evaluations(unkempt, "7")["schema_unchanged"].passed
    write_log(unkempt.path, {9: [file_of(DAYS[0], "9", 100)]})
    unkempt.refresh()
    for version, name in (("7", "schema_unchanged"), ("8", "steady_growth")):
        settled = evaluations(unkempt, version)[name]
        assert settled.passed
        assert settled.description == "Version 9 passes again."


def executed(app: App, asset: str, name: str) -> dg.ExecuteInProcessResult:
    """The run of one check alone, as from its page."""
    selection = dg.AssetSelection.checks(dg.AssetCheckKey(dg.AssetKey(["events", asset]), name))
    jobs = [dg.define_asset_job("alone", selection, executor_def=dg.in_process_executor)]
    job = dg.Definitions.merge(app.defs, dg.Definitions(jobs=jobs)).resolve_job_def("alone")
    return job.execute_in_process(instance=app.instance, run_config=QUIET)


def evaluated(app: App, asset: str, name: str) -> Any:
    """The result of one check that failed, executed alone."""
    (evaluation,) = executed(app, asset, name).get_asset_check_evaluations()
    assert "\n\nWhat to do: " in (evaluation.description or "")
    return evaluation


def test_log_with_gaps_is_reported(tmp_path: Path) -> None:
    app = App(tmp_path)
    versions = {version: [file_of(DAYS[0], str(version), 100)] for version in range(1, 7) if version not in (3, 5)}
    write_log(app.path, {0: [protocol(), schema("id")], **versions})
    reported = evaluated(app, "delta_log", "contiguous_log")
    assert reported.severity is dg.AssetCheckSeverity.ERROR
    assert reported.description.startswith("Of versions 0 to 6, 4 cannot be loaded: 3 to 6. The commit of version 3 is")


def test_table_with_an_unknown_feature_is_reported(tmp_path: Path) -> None:
    app = App(tmp_path)
    asks = {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": ["later"], "writerFeatures": ["later"]}
    write_log(app.path, {0: [protocol(), schema("id")], 1: [{"protocol": asks}]})
    reported = evaluated(app, "delta_log", "readable_protocol")
    assert reported.severity is dg.AssetCheckSeverity.ERROR
    assert f"{app.path} needs the reader features later, which deltasnap does not support." in reported.description
    other = executed(app, "delta_log", "contiguous_log")
    assert (other.success, other.get_asset_check_evaluations()) == (True, [])
