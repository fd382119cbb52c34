"""Records in Dagster that a table is broken, or that its last run failed: on its page, then in its checks.

The page shows the faults above the numbers of the last good version. The same fault is recorded only once.
"""

from __future__ import annotations

from collections.abc import Mapping

import dagster as dg

from deltasnap_assets.checks.check import AnyCheck, Verdict, not_evaluated
from deltasnap_assets.checks.registry import CONDITION_CHECKS, LOG_CHECKS, checks_of
from deltasnap_assets.runs.condition.check_events import report_checks
from deltasnap_assets.runs.condition.fault_texts import (
    FAULT_ENTRIES,
    condition_tag,
    fault_entries,
    fault_lines,
    in_cell,
    problems_of,
)
from deltasnap_assets.runs.condition.poll_findings import PollFindings
from deltasnap_assets.runs.condition.poll_records import record
from deltasnap_assets.runs.due import is_failure_over
from deltasnap_assets.runs.planning.known_table import last_observation
from deltasnap_assets.runs.planning.names import CONDITION_TAG, table_key
from deltasnap_assets.runs.stores import store_of, uri_of
from deltasnap_assets.settings.config import Settings
from deltasnap_assets.settings.table_settings import TableSettings
from deltasnap_assets.texts import visible
from deltasnap_core import Problem, ProblemKind, TableCondition


def report_condition(
    instance: dg.DagsterInstance,
    settings: Settings,
    table: TableSettings,
    condition: TableCondition | None,
    failed: Problem | None = None,
) -> bool:
    """Record the faults of a table on its page, in its checks and as its last poll. Return whether they are new.

    condition: None: not known. If the page shows a fault that no longer exists, its end is recorded too. Only reading
    the whole log shows that.
    """
    if condition is not None and failed is not None and is_failure_over(condition, failed):
        failed = None
    checkpoint = None if condition is None else condition.checkpoint
    condition = None if condition is None else _to_report(condition)
    if condition is None and failed is None:
        if checkpoint is not None:
            record(store_of(settings), table, PollFindings(examined_checkpoint=checkpoint))
        return False
    latest, is_complete = (None, False) if condition is None else (condition.latest, condition.is_complete)
    found = PollFindings(
        latest_version=latest,
        problems=problems_of(condition, failed),
        is_examined=is_complete,
        examined_checkpoint=checkpoint,
    )
    record(store_of(settings), table, found)
    verdicts = {} if condition is None else _verdicts(table, condition)
    page = _page(table, condition, failed, verdicts, last_observation(instance, table))
    if page is None:
        return False
    instance.report_runless_asset_event(page)
    report_checks(instance, table, verdicts, failed)
    return True


def _to_report(condition: TableCondition) -> TableCondition | None:
    """Return the condition without faults that a check of each run reports. None: no fault, but not all was read."""
    reported = condition.without(ProblemKind.WRONG_CHECKSUM)  # by the check `checksum_agrees`
    return reported if reported.faults or reported.is_complete else None


def _page(
    table: TableSettings,
    condition: TableCondition | None,
    failed: Problem | None,
    verdicts: Mapping[AnyCheck, Verdict],
    last: dg.AssetObservation | None,
) -> dg.AssetObservation | None:
    """Return the new page of a table: that of the last observation, with these faults. None: it has them already."""
    lines = fault_lines(condition, failed)
    tag = condition_tag(*(() if condition is None else condition.faults), *([] if failed is None else [failed]))
    tags = {} if last is None else {**last.tags}
    if tag == tags.pop(CONDITION_TAG, None):
        return None
    metadata = {} if last is None else {k: v for k, v in last.metadata.items() if k not in FAULT_ENTRIES}
    good = metadata.get("latest_version")
    last_good = good.value if lines and good is not None and isinstance(good.value, int) else None
    if not lines:
        lines = ["The log no longer has faults: every version can be loaded. The next run evaluates the other checks."]
    entries = {"health": dg.MetadataValue.md("\n\n".join(lines)), **fault_entries(condition, failed, last_good)}
    skipped = {check: verdict for check, verdict in verdicts.items() if not verdict.is_evaluated}
    if condition is not None and skipped:
        rows = [f"- {check.name}: {in_cell(condition.table, why.description)}" for check, why in skipped.items()]
        entries["checks_not_evaluated"] = dg.MetadataValue.md("\n".join(rows))
    return dg.AssetObservation(
        asset_key=table_key(table),
        description=visible(lines[0]),
        metadata={**entries, "dagster/uri": uri_of(table), **metadata},
        tags=tags if tag is None else {**tags, CONDITION_TAG: tag},
    )


def _verdicts(table: TableSettings, condition: TableCondition) -> dict[AnyCheck, Verdict]:
    """Return the verdicts of the checks that need only the log. Without a table, or access to it, none is evaluated."""
    checks = checks_of(table.checks, CONDITION_CHECKS)
    found: dict[AnyCheck, Verdict] = {
        check: check.of_condition(condition) for check in checks if check.of_condition is not None
    }
    if condition.faults_of(ProblemKind.NO_TABLE, ProblemKind.ACCESS_DENIED) and condition.latest is None:
        found |= dict.fromkeys(checks_of(table.checks, LOG_CHECKS), not_evaluated(condition.text))
    return found
