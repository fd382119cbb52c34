"""Evaluates the checks of a table as it is now, without Dagster's instance and without the configured store.

The newest versions are stored in a temporary folder, so the facts and verdicts are those of a run.
"""

from __future__ import annotations

import tempfile
from collections.abc import Collection, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Literal

from deltasnap_assets.checks.check import AnyCheck, Severity, Verdict, not_evaluated
from deltasnap_assets.checks.registry import TABLE_CHECKS, VERSION_CHECKS, checks_of
from deltasnap_assets.runs.condition.check_events import LOG_ERRORS
from deltasnap_assets.runs.planning.partitions import contiguous
from deltasnap_assets.settings.config import Settings, SparkSettings
from deltasnap_assets.settings.table_settings import TableSettings
from deltasnap_assets.spark.session.failures import using_spark
from deltasnap_assets.spark.session.run_session import RunSession
from deltasnap_assets.spark.session_config import session_config
from deltasnap_assets.tables.checks.asset_checks import table_verdict
from deltasnap_assets.tables.checks.run_facts import HISTORY, RunFacts
from deltasnap_assets.tables.checks.version_checks import verdict_of_run
from deltasnap_assets.tables.run_snapshots import RunSnapshots
from deltasnap_core.support import EngineUse


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckResult:
    """The result of a check."""

    check: AnyCheck
    verdict: Verdict

    @property
    def status(self) -> Literal["passed", "failed", "skipped"]:
        """`skipped`: the check could not run, or there was nothing to compare."""
        if not self.verdict.is_evaluated:
            return "skipped"
        return "passed" if self.verdict.passed else "failed"

    @property
    def severity(self) -> Severity | None:
        """Of a failure; None: there is none."""
        return self.check.severity_of(self.verdict) if self.status == "failed" else None


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedTable:
    """The results of a table. version: the newest one that can be read; None: there is none.

    unreachable: why there is no log to check; None: there is one.
    """

    version: int | None = None
    results: tuple[CheckResult, ...] = ()
    unreachable: str | None = None


def check_now(table: TableSettings, spark: SparkSettings, selected: Collection[str]) -> CheckedTable:
    """Return the results of the selected checks of a table, in the order of the registry.

    If its latest version cannot be read, the failed checks of its log are also among them: the others then read an
    earlier version. Reads every commit of the log, and every page of its newest checkpoint.
    Spark starts only for large tables.
    Errors: JavaError if it is needed and cannot start.
    """
    with tempfile.TemporaryDirectory(prefix="deltasnap-check-") as folder:
        settings = Settings(storage=folder, spark=spark, tables=(table,))
        sessions = RunSession(session_config(spark))
        engine: EngineUse = "person" if spark.engine == "auto" else spark.engine
        snapshots = RunSnapshots(settings, sessions, engine=engine)
        with closing(snapshots), using_spark(table.name):
            return _checked(snapshots, table, selected)


def _checked(snapshots: RunSnapshots, table: TableSettings, selected: Collection[str]) -> CheckedTable:
    try:
        newest = _store_newest(snapshots, table)
    except LOG_ERRORS:
        newest = None
    condition = snapshots.conditions.of(table)
    if condition.latest is None or not condition.is_reachable:
        return CheckedTable(unreachable=f"{condition.text} {condition.faults[0].advice}")
    facts = RunFacts(table=table, snapshots=snapshots, versions=() if newest is None else (newest,))
    results = [
        CheckResult(check=check, verdict=table_verdict(check, facts))
        for check in checks_of(table.checks, TABLE_CHECKS)
        if check.name in selected or (check.of_condition is not None and not condition.is_readable)
    ]
    for check in checks_of(table.checks, VERSION_CHECKS):
        if check.name in selected:
            known = (
                not_evaluated(condition.text) if newest is None else verdict_of_run(check.judge(facts, table.checks))
            )
            results.append(CheckResult(check=check, verdict=known))
    chosen = [result for result in results if result.check.name in selected or result.status == "failed"]
    return CheckedTable(version=newest, results=tuple(chosen))


def _store_newest(snapshots: RunSnapshots, table: TableSettings) -> int | None:
    """Store the newest loadable version with those before it, and return it; None: no version can be loaded."""
    try:
        versions = _run_before(snapshots.listing(table).reconstructable_versions())
        snapshots.ensure_stored(table, versions, lambda *_: None)
    except LOG_ERRORS:
        versions = _run_before(snapshots.conditions.of(table).loadable)
        if versions:
            snapshots.ensure_stored(table, versions, lambda *_: None)
    return versions[-1] if versions else None


def _run_before(versions: Sequence[int]) -> Sequence[int]:
    """Return the last of some ascending versions, with those that it is compared with: as many as in a run."""
    runs = list(contiguous(versions[-HISTORY - 1 :]))
    return range(runs[-1][0], runs[-1][1] + 1) if runs else ()
