"""The asset checks of a table, evaluated on the current log and on the stored versions."""

# No `from __future__ import annotations` here: Dagster inspects the annotation of `context` and rejects a string.
# ruff: noqa: I002

from collections.abc import Iterator
from functools import partial
from typing import Any

import dagster as dg

from deltasnap_assets.checks.check import MAX_TEXT_LENGTH, Check, TableCheck, Verdict, failed_to_run, not_evaluated
from deltasnap_assets.checks.log.condition_check import unsupported
from deltasnap_assets.checks.log.readable_protocol import ReadableProtocol
from deltasnap_assets.checks.registry import TABLE_CHECKS
from deltasnap_assets.runs.condition.check_events import LOG_ERRORS, severity_of
from deltasnap_assets.runs.planning.names import asset_key
from deltasnap_assets.runs.run_progress import progress_logged
from deltasnap_assets.runs.table_runs import ends_failure
from deltasnap_assets.settings.config import TableSettings
from deltasnap_assets.spark.session.failures import using_spark
from deltasnap_assets.tables.assets.steps import checks_step, snapshots_of
from deltasnap_assets.tables.checks.recorded_results import record_table_checks
from deltasnap_assets.tables.checks.run_facts import RunFacts, versions_of_run
from deltasnap_assets.tables.checks.version_checks import version_checks
from deltasnap_assets.texts import visible
from deltasnap_core import DeltaSnapError


def table_checks(table: TableSettings) -> list[dg.AssetChecksDefinition]:
    """Return the checks of a table, as two steps of its runs: checks of the table, and checks of single versions."""
    return [_checks_of_now(table), version_checks(table)]


def _checks_of_now(table: TableSettings) -> dg.AssetChecksDefinition:
    """Return the checks of the current table.

    They are not partitioned: one result per run describes the current table (`checksum_agrees`: the versions of the run
    and the newest stored one). One result per version would double the events of a wide range.
    """

    specs = [
        dg.AssetCheckSpec(
            check.name, asset=asset_key(table, check.asset), description=check.expects, blocking=check.is_blocking
        )
        for check in TABLE_CHECKS
    ]
    # A table may be named `orders_version`. Names of steps do not collide if none of their endings ends with another.
    return checks_step(table, f"{table.name}__table_expectations", specs, partial(_evaluate, table))


def _evaluate(table: TableSettings, context: dg.AssetCheckExecutionContext, _: object) -> Iterator[dg.AssetCheckResult]:
    with progress_logged(context.instance, context.run, f"checks of {table.name}"):
        yield from _results(context, table)


def _results(context: dg.AssetCheckExecutionContext, table: TableSettings) -> Iterator[dg.AssetCheckResult]:
    snapshots = snapshots_of(context, table)
    facts = RunFacts(table=table, snapshots=snapshots, versions=versions_of_run(context, snapshots, table))
    selected = {key.name for key in context.selected_asset_check_keys}
    of_run, ended = dict[Check, Verdict](), list[str]()
    for check in (check for check in TABLE_CHECKS if check.name in selected):
        verdict = table_verdict(check, facts)
        if verdict.is_evaluated:
            of_run |= {check: verdict} if verdict.is_of_run else {}
            yield _result(table, check, verdict)
        else:  # Dagster shows it as skipped
            ended.extend([check.name] if verdict.passed else [])
            log = context.log.info if verdict.passed else context.log.warning
            log(f"{check.name}: {visible(verdict.description, MAX_TEXT_LENGTH)}")
    are_all = selected.issuperset(check.name for check in TABLE_CHECKS)
    is_over = ends_failure(context.instance, table, context.run)
    record_table_checks(snapshots, table, of_run, context.run, ended=ended, are_all=are_all, ends_failure=is_over)


def table_verdict(check: TableCheck[Any], facts: RunFacts) -> Verdict:
    """Return the verdict of a check. An exception becomes the verdict, unless the table's condition explains it."""
    try:
        if (reason := unsupported(facts.condition)) and not isinstance(check, ReadableProtocol):
            return not_evaluated(reason)
        with using_spark(facts.table.name):
            return check.verdict(facts, facts.table.checks)
    except DeltaSnapError as error:
        is_explained = not facts.condition.is_readable and isinstance(error, LOG_ERRORS)
        if is_explained:
            return not_evaluated(facts.condition.text)
        return Verdict(passed=False, description=str(error), severity="error")
    except Exception as error:  # noqa: BLE001  # the other checks are still evaluated
        return failed_to_run(f"{type(error).__name__}: {error}")


def _result(table: TableSettings, check: TableCheck[Any], verdict: Verdict) -> dg.AssetCheckResult:
    return dg.AssetCheckResult(
        check_name=check.name,
        asset_key=asset_key(table, check.asset),
        passed=verdict.passed,
        severity=severity_of(check, verdict),
        description=check.text_of(verdict),
        metadata=dict(verdict.numbers),
    )
