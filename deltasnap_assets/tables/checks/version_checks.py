"""The asset checks of single versions. Their results have the partitions of the versions."""

# No `from __future__ import annotations` here: Dagster inspects the annotation of `context` and rejects a string.
# ruff: noqa: I002

import time
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial

import dagster as dg

from deltasnap_assets.checks.check import AnyCheck, Verdict, VersionCheck, failed_to_run, not_evaluated
from deltasnap_assets.checks.registry import VERSION_CHECKS, checks_of
from deltasnap_assets.dagster_internals import (
    AssetCheckEvaluationTargetMaterializationData,
    AssetCheckExecutionRecordStatus,
)
from deltasnap_assets.runs.condition.check_events import severity_of
from deltasnap_assets.runs.planning.names import asset_key, selects_versions
from deltasnap_assets.runs.planning.partitions import key_of, known_versions, version_partitions
from deltasnap_assets.runs.run_progress import progress_logged
from deltasnap_assets.settings.table_settings import TableSettings
from deltasnap_assets.tables.assets.steps import checks_step, snapshots_of
from deltasnap_assets.tables.checks.recorded_results import record_version_checks
from deltasnap_assets.tables.checks.run_facts import RunFacts, versions_of_run
from deltasnap_assets.texts import visible
from deltasnap_core import DeltaSnapError

_MAX_SETTLED = 100
_NOTHING = not_evaluated("there are too few earlier versions to compare with.")


def version_checks(table: TableSettings) -> list[dg.AssetChecksDefinition]:
    """Return the checks of the versions of a table, as one step of its runs; empty: all of them are switched off.

    Each version of the run that can be compared has its own result, passed or a warning. The result of the run is the
    worst one. A run without a partition, as Dagster's UI starts it for all checks of an asset, evaluates the newest
    stored version.
    """
    specs = _specs(table)
    return (
        [checks_step(table, f"{table.name}__version_expectations", specs, partial(_evaluate, table))] if specs else []
    )


def _evaluate(
    table: TableSettings, context: dg.AssetCheckExecutionContext
) -> Iterator[dg.AssetCheckResult | dg.AssetCheckEvaluation]:
    with progress_logged(context.instance, context.run, f"checks of the versions of {table.name}"):
        yield from _results(context, table)


def _results(
    context: dg.AssetCheckExecutionContext, table: TableSettings
) -> Iterator[dg.AssetCheckResult | dg.AssetCheckEvaluation]:
    snapshots, has_partition = snapshots_of(context, table), selects_versions(context.run.tags)
    versions = versions_of_run(context, snapshots, table)
    if not versions:
        context.log.warning("not evaluated: no version of the run is stored.")
        return  # Dagster shows them as skipped
    selected = {key.name: key for key in context.selected_asset_check_keys}
    checks = [check for check in checks_of(table.checks, VERSION_CHECKS) if check.name in selected]
    try:
        facts = RunFacts(table=table, snapshots=snapshots, versions=versions)
        verdicts_of = {check: check.judge(facts, table.checks) for check in checks}
    except DeltaSnapError as error:
        verdict = failed_to_run(visible(str(error)))
        failed: dict[AnyCheck, Verdict] = dict.fromkeys(checks, verdict)
        results = [_result(check, selected[check.name], verdict) for check in failed]
        yield from results if has_partition else map(_evaluation, results)
        record_version_checks(snapshots, table, failed, versions, ())
        return
    of_run = dict[AnyCheck, Verdict]()
    for check, verdicts in verdicts_of.items():
        key = selected[check.name]
        if not verdicts:  # Dagster shows it as skipped
            context.log.info(f"{check.name}: {_NOTHING.description}")
            continue
        if len(versions) > 1 or not has_partition:
            _record(context, check, key, verdicts)
        if verdicts[newest := max(verdicts)].passed:
            _record(context, check, key, _settled(context, key, newest))
        of_run[check], result = verdict_of_run(verdicts), _of_run(check, key, verdicts)
        yield result if has_partition else _evaluation(result)
    record_version_checks(snapshots, table, of_run, versions, selected)


def _specs(table: TableSettings) -> list[dg.AssetCheckSpec]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # partitioned checks are a preview feature of Dagster
        return [
            dg.AssetCheckSpec(
                check.name,
                asset=asset_key(table, check.asset),
                description=check.expects,
                blocking=check.blocks,
                partitions_def=version_partitions(table.name),
            )
            for check in checks_of(table.checks, VERSION_CHECKS)
        ]


def _evaluation(result: dg.AssetCheckResult) -> dg.AssetCheckEvaluation:
    """Return the result of a run without a partition. For an `AssetCheckResult`, Dagster looks up the partition."""
    assert result.asset_key is not None
    assert result.check_name is not None
    return dg.AssetCheckEvaluation(
        asset_key=result.asset_key,
        check_name=result.check_name,
        passed=result.passed,
        severity=result.severity,
        description=result.description,
        metadata=result.metadata,
    )


def verdict_of_run(verdicts: Mapping[int, Verdict]) -> Verdict:
    """Return one verdict for all versions of a run: the failed ones together, otherwise the newest.

    Without a version that can be compared, the check is not evaluated.
    """
    ordered = [verdict for _, verdict in sorted(verdicts.items())]
    failed = [verdict for verdict in ordered if not verdict.passed]
    if failed:
        return replace(failed[-1], description=" ".join(each.description for each in failed))
    return ordered[-1] if ordered else _NOTHING


def _of_run(check: VersionCheck, key: dg.AssetCheckKey, verdicts: Mapping[int, Verdict]) -> dg.AssetCheckResult:
    failed = [each for each in verdicts.values() if not each.passed]
    return _result(check, key, verdict_of_run(verdicts), versions_judged=len(verdicts), versions_failed=len(failed))


def _result(check: AnyCheck, key: dg.AssetCheckKey, verdict: Verdict, **numbers: int) -> dg.AssetCheckResult:
    return dg.AssetCheckResult(
        check_name=key.name,
        asset_key=key.asset_key,
        passed=verdict.passed,
        severity=severity_of(check, verdict),
        description=check.text_of(verdict),
        metadata=numbers,
    )


def _settled(context: dg.AssetCheckExecutionContext, key: dg.AssetCheckKey, newest: int) -> dict[int, Verdict]:
    """Return passing results for versions that failed in earlier runs, when a later version, `newest`, passes.

    Dagster shows a check as failed while any of its partitions is failed. An old failure should not stay visible.
    """
    storage, failed = context.instance.event_log_storage, AssetCheckExecutionRecordStatus.FAILED
    records = storage.get_asset_check_execution_history(key, limit=_MAX_SETTLED, status={failed})
    partitions = {record.partition for record in records if record.run_id != context.run.run_id} - {None}
    earlier = {key_of(version): version for version in known_versions(map(str, partitions)) if version < newest}
    infos = storage.get_asset_check_partition_info([key], partition_keys=[*earlier]) if earlier else ()
    return {
        earlier[info.partition_key]: Verdict(passed=True, description=f"Version {newest} passes again.")
        for info in infos
        if info.partition_key is not None and info.latest_execution_status == failed
    }


def _record(
    context: dg.AssetCheckExecutionContext,
    check: VersionCheck,
    key: dg.AssetCheckKey,
    verdicts: Mapping[int, Verdict],
) -> None:
    """Record one result per version. Dagster itself records one result for all versions of a run."""
    keys = {key_of(version) for version in verdicts}
    materialized = context.instance.get_latest_storage_id_by_partition(
        key.asset_key, dg.DagsterEventType.ASSET_MATERIALIZATION, keys
    )
    for version, verdict in verdicts.items():
        target = materialized.get(key_of(version))
        # Recorded inside the run: Dagster accepts a result outside a run only once per version.
        context.op_execution_context.log_event(
            dg.AssetCheckEvaluation(  # type: ignore[arg-type]  # taken, not declared
                asset_key=key.asset_key,
                check_name=key.name,
                passed=verdict.passed,
                severity=severity_of(check, verdict),
                description=check.text_of(verdict),
                metadata=dict(verdict.numbers),
                partition=key_of(version),
                target_materialization_data=None
                if target is None
                else AssetCheckEvaluationTargetMaterializationData(
                    storage_id=target, run_id=context.run.run_id, timestamp=time.time()
                ),
            )
        )
