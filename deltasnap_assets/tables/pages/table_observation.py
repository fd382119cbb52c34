"""The page of the table itself, `<table>/delta_log`, recorded in full when its latest version is stored."""

from __future__ import annotations

from collections.abc import Sequence

import dagster as dg

from deltasnap_assets.checks.check import AnyCheck, Verdict
from deltasnap_assets.checks.commits import freshness
from deltasnap_assets.checks.registry import FRESH_TABLE, VERSION_CHECKS, checks_of
from deltasnap_assets.runs.condition.fault_texts import condition_tag
from deltasnap_assets.runs.planning.known_table import observation_tags
from deltasnap_assets.runs.planning.names import CONDITION_TAG, DATA_VERSION, LAST_UPDATED, table_key
from deltasnap_assets.settings.table_settings import TableSettings
from deltasnap_assets.tables.checks.run_facts import RunFacts
from deltasnap_assets.tables.checks.version_checks import verdict_of_run
from deltasnap_assets.tables.pages.asset_pages import ShownVersion, table_page
from deltasnap_assets.tables.pages.metadata import time_value
from deltasnap_assets.tables.pages.pictures import MAX_STEPS, VersionStep
from deltasnap_assets.tables.run_snapshots import RunSnapshots
from deltasnap_assets.texts import plain_of_markdown
from deltasnap_core import DeltaHistory
from deltasnap_core.support import system_clock


def recent_commits(snapshots: RunSnapshots, table: TableSettings, version: int) -> tuple[DeltaHistory, ...]:
    """Return the last stored commits up to a version, newest first."""
    stored = [v for v in snapshots.stored_versions(table) if version - MAX_STEPS < v <= version]
    manifests = snapshots.versions.manifests(table.name, stored)
    return tuple(
        DeltaHistory.of(v, manifests[v].timestamp, None if (commit := manifests[v].commit) is None else commit.info)
        for v in reversed(stored)
    )


def last_vacuum_ms(commits: Sequence[DeltaHistory]) -> int | None:
    """Return when VACUUM last ended (ms since the epoch), unless it failed; None: not in these commits."""
    ended = (commit for commit in commits if commit.operation == "VACUUM END")
    done = (commit for commit in ended if (commit.operation_parameters or {}).get("status") != "FAILED")
    return max((commit.timestamp for commit in done), default=None)


def table_observation(
    instance: dg.DagsterInstance,
    snapshots: RunSnapshots,
    table: TableSettings,
    versions: Sequence[int],
) -> dg.AssetObservation | None:
    """Return the observation of the table if `versions`, of a run, end with the newest stored one; None: they do not.

    It is the only observation for a batch of commits. It has all the numbers, so that plots have a point for each
    batch.
    """
    version = max(versions)
    if version != max(snapshots.stored_versions(table), default=None):
        return None
    condition, commits = snapshots.conditions.of(table), recent_commits(snapshots, table, version)
    state = snapshots.versions.states(table.name, [version])[version]
    (manifest,) = snapshots.versions.manifests(table.name, [version]).values()
    shown = ShownVersion(
        state=state,
        segment=snapshots.log_segments(table, [version])[version],
        committed_at_ms=manifest.timestamp,
        commit=commits[0],
        steps=_steps(snapshots, table, commits),
        counted=snapshots.facts.of(table),
        condition=condition,
        others=_other_verdicts(snapshots, table, versions, commits),
    )
    page = table_page(table, shown)
    faults_first = {"health": page.pop("health")} if "health" in page else {}
    table_id = "" if state.metadata is None else state.metadata.id
    data_version = snapshots.data_change(table, version).version
    tags = observation_tags(instance, table, table.data_version(version, data_version), table_id)
    if (tag := condition_tag(*condition.faults)) is not None:
        tags[CONDITION_TAG] = tag
    return dg.AssetObservation(
        asset_key=table_key(table),
        description=f"Latest version: {version}",
        metadata={
            **faults_first,
            "latest_version": version,
            DATA_VERSION: data_version,
            LAST_UPDATED: time_value(manifest.timestamp),
            **page,
        },
        tags=tags,
    )


def _other_verdicts(
    snapshots: RunSnapshots, table: TableSettings, versions: Sequence[int], commits: Sequence[DeltaHistory]
) -> list[tuple[AnyCheck, Verdict]]:
    """Return the verdicts of the checks of commits and versions. They are evaluated after the page.

    The age of the last commit is unknown while the log has later versions: those of a backlog, or after a fault.
    """
    facts = RunFacts(table=table, snapshots=snapshots, versions=versions)
    verdicts: list[tuple[AnyCheck, Verdict]] = [
        (check, verdict_of_run(check.judge(facts, table.checks))) for check in checks_of(table.checks, VERSION_CHECKS)
    ]
    if (snapshots.listing(table).latest_version or 0) > max(versions):
        return verdicts
    times = sorted(commit.timestamp for commit in commits)
    fresh = checks_of(table.checks, [FRESH_TABLE])
    return [*((check, freshness(times, table.checks, now_ms=system_clock())) for check in fresh), *verdicts]


def health_of(instance: dg.DagsterInstance, table: TableSettings) -> str | None:
    """Return the health of a table's page as plain text on one line; None: nothing is recorded yet."""
    for record in instance.fetch_observations(table_key(table), limit=1).records:
        seen = record.asset_observation
        line = None if seen is None else seen.metadata.get("health")
        return None if line is None else plain_of_markdown(str(line.value))
    return None


def _steps(snapshots: RunSnapshots, table: TableSettings, commits: Sequence[DeltaHistory]) -> tuple[VersionStep, ...]:
    """Return the changes of those versions that are stored with their changes, ascending."""
    operations = {commit.version: commit.operation or "unknown" for commit in commits}
    manifests = snapshots.versions.manifests(table.name, sorted(operations))
    return tuple(
        VersionStep(version=v, operation=operations[v], added=changes.added_bytes, removed=changes.removed_bytes)
        for v, manifest in sorted(manifests.items())
        if (changes := manifest.version_changes) is not None
    )
