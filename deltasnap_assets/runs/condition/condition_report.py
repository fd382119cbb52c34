"""Records in Dagster that a table is broken, or that its last run failed: on its page, then in its checks.

The page shows the faults above the numbers of the last good version. The same fault is recorded only once.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import dagster as dg

# No public names: they record a check that was planned but not evaluated, and events outside a run.
from dagster._core.definitions.asset_checks.asset_check_evaluation import AssetCheckEvaluationPlanned
from dagster._core.events import DagsterEvent
from dagster._core.instance.utils import RUNLESS_JOB_NAME, RUNLESS_RUN_ID
from dagster._core.storage.asset_check_execution_record import AssetCheckExecutionRecordStatus

from deltasnap_assets.checks.check import Check, Verdict, not_evaluated
from deltasnap_assets.checks.registry import CONDITION_CHECKS, LOG_CHECKS
from deltasnap_assets.runs.condition.ended_failures import end_failure, is_over
from deltasnap_assets.runs.condition.poll_records import LOG, RUN, Found, note
from deltasnap_assets.runs.planning.known_table import last_observation
from deltasnap_assets.runs.planning.names import CONDITION_TAG, delta_log_key
from deltasnap_assets.runs.stores import store_of
from deltasnap_assets.settings.config import Settings, TableSettings
from deltasnap_assets.texts import visible
from deltasnap_core import LOG_FOLDER, Fault, FaultKind, TableCondition, TableProblem, redacted

MAX_TEXT_LENGTH = 2000
FAILED_RUN = "failed_run"
CANNOT_BE_LOADED = "cannot_be_loaded"
FAULT_ENTRIES = ("health", FAILED_RUN, CANNOT_BE_LOADED, "can_be_loaded", "numbers_of", "checks_not_evaluated")
"""The keys of a page that describe faults. The other keys describe the last good version."""

_AFTER_A_FAILURE = "Refresh the table to materialize missing versions and evaluate the checks again."
_ACTIVE = re.compile(r"([\\`*\[\]<>|#~])")
_LINK = re.compile(r"(?i)\b(https?|ftp)://")


@dataclass(frozen=True, slots=True, kw_only=True)
class FailedRun:
    """The last run of a table, which failed, and the reason.

    first_missing: the first of its versions that is not materialized; None: there is none, or it is unknown.
    """

    run_id: str
    reason: str
    first_missing: int | None = None


def plain_text(text: str) -> str:
    """Return a text as Markdown that shows it unchanged, and that is also readable without rendering."""
    shown = _ACTIVE.sub(r"\\\1", visible(text, MAX_TEXT_LENGTH))
    return _LINK.sub(r"\1\\://", shown)


def fault_lines(condition: TableCondition | None, failed: FailedRun | None = None) -> list[str]:
    """Return the faults of a table as paragraphs of Markdown, the worst first; empty: no fault."""
    lines = [] if condition is None else [_fault_line(condition.table, fault) for fault in condition.faults]
    if failed is not None and not is_explained(condition, failed.reason):
        lines.append(f"The last run failed: {plain_text(failed.reason)}")
    return lines


def problems_of(condition: TableCondition | None, failed: FailedRun | None) -> dict[str, tuple[TableProblem, ...]]:
    """Return the faults of a table for its last poll, by what found them. condition: None: not known."""
    problems: dict[str, tuple[TableProblem, ...]] = {RUN: ()}
    if condition is not None:
        problems[LOG] = log_problems(condition)
    if failed is not None and not is_explained(condition, failed.reason):
        text = visible(f"The last run failed: {failed.reason}", MAX_TEXT_LENGTH)
        problems[RUN] = (TableProblem(check=RUN, severity="warning", text=text, advice=_AFTER_A_FAILURE),)
    return problems


def log_problems(condition: TableCondition) -> tuple[TableProblem, ...]:
    """Return the faults of a log for the last poll of its table."""
    return tuple(
        TableProblem(
            check=LOG,
            severity="error" if fault.mark == "error" else "warning",
            text=visible(fault.text, MAX_TEXT_LENGTH),
            advice=visible(fault.advice, MAX_TEXT_LENGTH),
            kind=fault.kind,
        )
        for fault in condition.faults
    )


def is_explained(condition: TableCondition | None, reason: str) -> bool:
    """Return whether a fault explains the failure of a run: it has the same sentence, or the same reason."""
    faults = () if condition is None else condition.faults
    return any(fault.text in reason or (bool(fault.reason) and fault.reason in reason) for fault in faults)


def _fault_line(table: str, fault: Fault) -> str:
    """Return a fault with its advice."""
    return f"{_in_cell(table, fault.text)} {plain_text(fault.advice)}"


def _in_cell(table: str, text: str) -> str:
    """Return text with the names of files of the log instead of their URLs: a long URL runs out of its cell."""
    return plain_text(text.replace(f"{table}/{LOG_FOLDER}/", ""))


def shows_unloadable(instance: dg.DagsterInstance, table_name: str) -> bool:
    """Return whether the page of a table shows versions that cannot be loaded."""
    last = last_observation(instance, table_name)
    return last is not None and CANNOT_BE_LOADED in last.metadata


def fault_entries(
    condition: TableCondition | None, failed: FailedRun | None, last_good: int | None
) -> dict[str, dg.MetadataValue]:
    """Return the fault entries of a page, except its first line."""
    entries: dict[str, dg.MetadataValue] = {}
    if failed is not None:
        entries[FAILED_RUN] = dg.MetadataValue.dagster_run(failed.run_id)
    if condition is not None and (rows := list(_unloadable_rows(condition))):
        entries[CANNOT_BE_LOADED] = dg.MetadataValue.md("\n".join(["| versions | why |", "|-|-|", *rows]))
    if condition is not None and condition.latest is not None and not condition.is_readable:
        entries["can_be_loaded"] = dg.MetadataValue.text(condition.loadable.text() or "none")
    is_latest = condition is not None and condition.is_readable and condition.latest == last_good
    if last_good is not None and not is_latest:
        is_lost = condition is not None and last_good in condition.unloadable
        what = "stored before the damage" if is_lost else "the last good one"
        entries["numbers_of"] = dg.MetadataValue.text(f"version {last_good}, {what}")
    return entries


def _unloadable_rows(condition: TableCondition) -> Iterator[str]:
    for fault in condition.faults:
        if fault.versions:
            yield f"| {fault.versions.text()} | {plain_text(_why(fault))} |"
        elif condition.latest is None:  # the log could not be listed
            yield f"| all | {plain_text(_why(fault))} |"


def _why(fault: Fault) -> str:
    if fault.missing:
        word = "commit of version" if len(fault.missing) == 1 else "commits of versions"
        return f"the {word} {fault.missing.text()} {'is' if len(fault.missing) == 1 else 'are'} missing"
    if fault.kind is FaultKind.UNSUPPORTED_PROTOCOL:
        return fault.text  # its reason is only the name of the feature
    where = "" if fault.file is None else f"{fault.file.rpartition('/')[2]}{_line(fault)}: "
    return f"{where}{fault.reason or fault.text}"


def _line(fault: Fault) -> str:
    return "" if fault.line is None else f", line {fault.line}"


def report_condition(
    instance: dg.DagsterInstance,
    settings: Settings,
    table: TableSettings,
    condition: TableCondition | None,
    failed: FailedRun | None = None,
) -> bool:
    """Record the faults of a table on its page, in its checks and as its last poll. Return whether they are new.

    condition: None: not known. If the page shows a fault that no longer exists, its end is recorded too. Only reading
    the whole log shows that.
    """
    if condition is not None and failed is not None and is_over(condition, failed.first_missing):
        end_failure(instance, table.name, failed.run_id)
        failed = None
    checkpoint = None if condition is None else condition.checkpoint
    if condition is not None:
        condition = condition.without(FaultKind.WRONG_CHECKSUM)  # the check `checksum_agrees` reports it, in each run
    if condition is not None and not condition.faults and not condition.is_complete:
        condition = None
    if condition is None and failed is None:
        if checkpoint is not None:
            note(store_of(settings), table, Found(examined_checkpoint=checkpoint))
        return False
    latest, is_complete = (None, False) if condition is None else (condition.latest, condition.is_complete)
    found = Found(
        latest_version=latest,
        problems=problems_of(condition, failed),
        is_examined=is_complete,
        examined_checkpoint=checkpoint,
    )
    note(store_of(settings), table, found)
    lines = fault_lines(condition, failed)
    last = last_observation(instance, table.name)
    tag = condition_tag(lines, failed)
    if tag == (None if last is None else last.tags.get(CONDITION_TAG)):
        return False
    metadata = {} if last is None else {k: v for k, v in last.metadata.items() if k not in FAULT_ENTRIES}
    good = metadata.get("latest_version")
    last_good = good.value if lines and good is not None and isinstance(good.value, int) else None
    if not lines:
        lines = ["The log no longer has faults: every version can be loaded. The next run evaluates the other checks."]
    entries: dict[str, Any] = {"health": dg.MetadataValue.md("\n\n".join(lines))}
    entries |= fault_entries(condition, failed, last_good)
    tags = {} if last is None else {k: v for k, v in last.tags.items() if k != CONDITION_TAG}
    verdicts = {} if condition is None else _verdicts(condition)
    skipped = {check: verdict for check, verdict in verdicts.items() if not verdict.is_evaluated}
    if condition is not None and skipped:
        rows = "\n".join(
            f"- {check.name}: {_in_cell(condition.table, verdict.description)}" for check, verdict in skipped.items()
        )
        entries["checks_not_evaluated"] = dg.MetadataValue.md(rows)
    instance.report_runless_asset_event(
        dg.AssetObservation(
            asset_key=delta_log_key(table.name),
            description=visible(lines[0]),
            metadata={**entries, "dagster/uri": redacted(table.path), **metadata},
            tags=tags if tag is None else {**tags, CONDITION_TAG: tag},
        )
    )
    _report_checks(instance, table.name, verdicts, failed)
    return True


def _verdicts(condition: TableCondition) -> dict[Check, Verdict]:
    """Return the verdicts of the checks that need only the log. If there is no table, or no access to it: of none."""
    found: dict[Check, Verdict] = {check: check.of_condition(condition) for check in CONDITION_CHECKS}
    if condition.faults_of(FaultKind.NO_TABLE, FaultKind.ACCESS_DENIED) and condition.latest is None:
        found |= {check: not_evaluated(condition.text) for check in LOG_CHECKS}
    return found


def condition_tag(lines: Iterable[str], failed: FailedRun | None) -> str | None:
    """Return a tag value that identifies the current faults; None: no fault."""
    text = "\n".join([*lines, "" if failed is None else failed.run_id]).strip()
    return hashlib.sha256(text.encode(errors="replace")).hexdigest()[:40] if text else None


def _report_checks(
    instance: dg.DagsterInstance,
    table_name: str,
    verdicts: Mapping[Check, Verdict],
    failed: FailedRun | None,
) -> None:
    for check, verdict in verdicts.items():
        if verdict.is_evaluated:
            instance.report_runless_asset_event(check_evaluation(table_name, check, verdict))
        else:
            _report_skipped(instance, dg.AssetCheckKey(dg.AssetKey([table_name, check.asset]), check.name))
    if failed is None:
        return
    names = {check.name for check in verdicts}
    for event in _planned(instance, failed.run_id):
        planned: Any = event.event_specific_data
        if planned.check_name not in names and _is_unevaluated(instance, planned, failed.run_id):
            _report_skipped(instance, dg.AssetCheckKey(planned.asset_key, planned.check_name))


def check_evaluation(table_name: str, check: Check, verdict: Verdict) -> dg.AssetCheckEvaluation:
    """Return a check evaluation for Dagster to record."""
    return dg.AssetCheckEvaluation(
        asset_key=dg.AssetKey([table_name, check.asset]),
        check_name=check.name,
        passed=verdict.passed,
        severity=severity_of(check, verdict),
        description=check.text_of(verdict, visible(verdict.description, MAX_TEXT_LENGTH)),
        metadata=dict(verdict.numbers),
    )


def severity_of(check: Check, verdict: Verdict) -> dg.AssetCheckSeverity:
    """Return the severity of a verdict for Dagster."""
    is_error = check.severity_of(verdict) == "error"
    return dg.AssetCheckSeverity.ERROR if is_error else dg.AssetCheckSeverity.WARN


def _planned(instance: dg.DagsterInstance, run_id: str) -> list[DagsterEvent]:
    entries = instance.all_logs(run_id, of_type=dg.DagsterEventType.ASSET_CHECK_EVALUATION_PLANNED)
    return [entry.dagster_event for entry in entries if entry.dagster_event is not None]


def _is_unevaluated(instance: dg.DagsterInstance, planned: Any, run_id: str) -> bool:
    """Return whether a check was planned in a failed run but not evaluated. Dagster shows it as failed."""
    key = dg.AssetCheckKey(planned.asset_key, planned.check_name)
    latest = instance.event_log_storage.get_asset_check_execution_history(key, limit=1)
    return any(
        record.run_id == run_id and record.status is AssetCheckExecutionRecordStatus.PLANNED for record in latest
    )


def _report_skipped(instance: dg.DagsterInstance, key: dg.AssetCheckKey) -> None:
    """Record that a check was planned but not evaluated, outside a run. Dagster then shows it as skipped.

    Without partitions: Dagster stores a planned check of a partition only once outside runs.
    """
    event = DagsterEvent(
        event_type_value=dg.DagsterEventType.ASSET_CHECK_EVALUATION_PLANNED.value,
        event_specific_data=AssetCheckEvaluationPlanned(asset_key=key.asset_key, check_name=key.name),
        job_name=RUNLESS_JOB_NAME,
    )
    instance.report_dagster_event(event, run_id=RUNLESS_RUN_ID)
