"""The asset checks of a table, evaluated on the current log and on the stored versions."""

# No `from __future__ import annotations` here: Dagster inspects the annotation of `context` and rejects a string.
# ruff: noqa: I002

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from functools import partial

import dagster as dg

from deltasnap_assets.checks.check import MAX_TEXT_LENGTH, AnyCheck, TableCheck, Verdict, failed_to_run, not_evaluated
from deltasnap_assets.checks.log import unsupported
from deltasnap_assets.checks.registry import READABLE_PROTOCOL, TABLE_CHECKS, checks_of
from deltasnap_assets.runs.condition.check_events import LOG_ERRORS, check_evaluation, severity_of
from deltasnap_assets.runs.planning.names import asset_key
from deltasnap_assets.runs.run_progress import progress_logged
from deltasnap_assets.runs.table_runs import ends_failure
from deltasnap_assets.settings.config import Settings
from deltasnap_assets.settings.table_settings import ASSET_NAMES, TABLE_ASSET, TableSettings
from deltasnap_assets.spark.session.failures import using_spark
from deltasnap_assets.spark.session.run_session import RunSession
from deltasnap_assets.spark.session_config import session_config
from deltasnap_assets.tables.assets.steps import checks_step, snapshots_of
from deltasnap_assets.tables.checks.recorded_results import record_table_checks
from deltasnap_assets.tables.checks.run_facts import RunFacts, versions_of_run
from deltasnap_assets.tables.checks.version_checks import version_checks
from deltasnap_assets.tables.run_snapshots import RunSnapshots
from deltasnap_assets.texts import visible
from deltasnap_core import DeltaSnapError


def table_checks(settings: Settings, table: TableSettings) -> list[dg.AssetChecksDefinition]:
    """Return the checks of a table as steps: those of its log, of the current table, and of single versions.

    The first step is for Dagster's UI and for jobs of the project, for example those that write the table. It reads
    only the log, without Spark. The runs of the table have the other steps, which also evaluate the checks of the log.
    None of these is partitioned: one result per run describes the current table (`checksum_agrees`: the versions of the
    run and the newest stored one). One result per version would double the events of a wide range.
    """
    checks = checks_of(table.checks, TABLE_CHECKS)
    of_log = [check for check in checks if check.asset == TABLE_ASSET]
    # Dagster evaluates a blocking check before the assets downstream, and the other checks need these.
    first = [check for check in checks if check.asset == ASSET_NAMES[0] and check.blocks]
    others = [check for check in checks if check not in (*of_log, *first)]
    # A table may be named `orders_version`. Names of steps do not collide if none of their endings ends with another.
    steps = {
        f"{table.name}__log_expectations": (of_log, partial(_evaluate_log, settings, table)),
        f"{table.name}__segment_expectations": (first, partial(_evaluate, table, first, None)),
        f"{table.name}__table_expectations": (others, partial(_evaluate, table, others, of_log)),
    }
    own = [
        checks_step(table, name, _specs(table, found), compute, needs_snapshots=found is not of_log)
        for name, (found, compute) in steps.items()
        if found
    ]
    return [*own, *version_checks(table)]


def _specs(table: TableSettings, checks: Iterable[AnyCheck]) -> list[dg.AssetCheckSpec]:
    return [
        dg.AssetCheckSpec(
            check.name, asset=asset_key(table, check.asset), description=check.expects, blocking=check.blocks
        )
        for check in checks
    ]


def _evaluate_log(
    settings: Settings, table: TableSettings, context: dg.AssetCheckExecutionContext
) -> Iterator[dg.AssetCheckResult]:
    """Yield the results of the checks of the log. The condition of the log is recorded as after a poll."""
    sessions = RunSession(session_config(settings.spark))  # these checks use no session
    doing = progress_logged(context.instance, context.run, f"checks of the log of {table.name}")
    with doing, closing(RunSnapshots(settings, sessions)) as snapshots:
        facts = RunFacts(table=table, snapshots=snapshots, versions=())
        of_log = [check for check in checks_of(table.checks, TABLE_CHECKS) if check.asset == TABLE_ASSET]
        verdicts = _verdicts(context, facts, _selected(context, of_log))
        yield from _results(table, verdicts)
        record_table_checks(facts, verdicts, context.run, are_all=False, ends_failure=False)


def _evaluate(
    table: TableSettings,
    checks: Sequence[TableCheck],
    of_log: Sequence[TableCheck] | None,
    context: dg.AssetCheckExecutionContext,
) -> Iterator[dg.AssetCheckResult]:
    """Yield the results of checks.

    of_log: those of the log, which a run that evaluates all checks records too; None: these are not all checks.
    """
    snapshots = snapshots_of(context, table)
    with progress_logged(context.instance, context.run, f"checks of {table.name}"):
        facts = RunFacts(table=table, snapshots=snapshots, versions=versions_of_run(context, snapshots, table))
        verdicts = _verdicts(context, facts, _selected(context, checks))
        yield from _results(table, verdicts)
        are_all = of_log is not None and len(verdicts) == len(checks)
        of_all = _verdicts(context, facts, of_log or ()) if are_all else {}
        for check, verdict in of_all.items():
            if verdict.is_evaluated:
                context.instance.report_runless_asset_event(check_evaluation(table, check, verdict))
        is_over = ends_failure(context.instance, table, context.run)
        record_table_checks(facts, verdicts | of_all, context.run, are_all=are_all, ends_failure=is_over)


def _selected(context: dg.AssetCheckExecutionContext, checks: Sequence[TableCheck]) -> Sequence[TableCheck]:
    names = {key.name for key in context.selected_asset_check_keys}
    return [check for check in checks if check.name in names]


def _verdicts(
    context: dg.AssetCheckExecutionContext, facts: RunFacts, checks: Iterable[TableCheck]
) -> dict[TableCheck, Verdict]:
    """Return the verdicts of checks. Dagster shows a check that is not evaluated as skipped: the log has the reason."""
    found = {check: table_verdict(check, facts) for check in checks}
    for check, verdict in found.items():
        if not verdict.is_evaluated:
            log = context.log.info if verdict.passed else context.log.warning
            log(f"{check.name}: {visible(verdict.description, MAX_TEXT_LENGTH)}")
    return found


def _results(table: TableSettings, verdicts: Mapping[TableCheck, Verdict]) -> Iterator[dg.AssetCheckResult]:
    return (_result(table, check, verdict) for check, verdict in verdicts.items() if verdict.is_evaluated)


def table_verdict(check: TableCheck, facts: RunFacts) -> Verdict:
    """Return the verdict of a check. An exception becomes the verdict, unless the table's condition explains it."""
    try:
        if (reason := unsupported(facts.condition)) and check.name != READABLE_PROTOCOL.name:
            return not_evaluated(reason)
        with using_spark(facts.table.name):
            return check.judge(facts, facts.table.checks)
    except DeltaSnapError as error:
        is_explained = not facts.condition.is_readable and isinstance(error, LOG_ERRORS)
        if is_explained:
            return not_evaluated(facts.condition.text)
        return Verdict(passed=False, description=str(error), severity="error")
    except Exception as error:  # noqa: BLE001  # the other checks are still evaluated
        return failed_to_run(f"{type(error).__name__}: {error}")


def _result(table: TableSettings, check: TableCheck, verdict: Verdict) -> dg.AssetCheckResult:
    return dg.AssetCheckResult(
        check_name=check.name,
        asset_key=asset_key(table, check.asset),
        passed=verdict.passed,
        severity=severity_of(check, verdict),
        description=check.text_of(verdict),
        metadata=dict(verdict.numbers),
    )
