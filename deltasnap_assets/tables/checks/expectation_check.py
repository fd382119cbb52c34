"""An asset check of a project: an expectation about the rows of a table, whose failure names the culprit."""

# No `from __future__ import annotations` here: Dagster inspects the annotation of `context` and rejects a string.
# ruff: noqa: I002

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any, Literal

import dagster as dg

from deltasnap_assets.bisection_texts import PARTS, bisection_lines
from deltasnap_assets.checks.check import MAX_TEXT_LENGTH
from deltasnap_assets.exact_values import json_rows, value_text
from deltasnap_assets.provenance import made_by
from deltasnap_assets.runs.planning.names import table_key
from deltasnap_assets.settings.config import Settings
from deltasnap_assets.settings.table_settings import TableSettings
from deltasnap_assets.spark.session.failures import using_spark
from deltasnap_assets.tables.assets.steps import checks_step, snapshots_of
from deltasnap_assets.tables.pages.metadata import markdown_table
from deltasnap_assets.texts import lines_joined, markdown_code, visible
from deltasnap_core.errors import one_line
from deltasnap_core.support import Bisection, Outcome

_MOST_ROWS = 5


def expectation_check(
    settings: Settings,
    table: str,
    name: str,
    *,
    severity: Literal["warning", "error"] = "error",
    **expected: Any,
) -> dg.AssetChecksDefinition:
    """Return an asset check of the table's own asset. If it fails, the result names the version that broke it.

        expectation_check(settings, "events", "amount_is_known", where="amount is null")

    It judges the latest version. Only if that fails, it searches the version that broke the expectation in the log and
    the store, as `Table.bisect`: description and metadata have the version, the operation, the user, the job, and some
    of the rows. It needs Spark, and the resources of `build_definitions(settings)`.
    settings: those of `build_definitions`. table, name: of the table and of the check. severity: of a failure.
    expected: the options of `Table.bisect`.
    Errors: ValueError for an unknown table.
    """
    of_table = settings.table(table)
    text = ", ".join(f"{key}: {value}" for key, value in expected.items() if not callable(value))
    spec = dg.AssetCheckSpec(name, asset=table_key(of_table), description=f"Each version holds: {text}.")
    compute = partial(_evaluate, of_table, spec, dg.AssetCheckSeverity[_SEVERITIES[severity]], expected)
    return checks_step(of_table, f"{of_table.name}__{name}", [spec], compute)


_SEVERITIES = {"warning": "WARN", "error": "ERROR"}


def _evaluate(
    table: TableSettings,
    spec: dg.AssetCheckSpec,
    severity: dg.AssetCheckSeverity,
    expected: Mapping[str, Any],
    context: dg.AssetCheckExecutionContext,
) -> Iterator[dg.AssetCheckResult]:
    snapshots = snapshots_of(context, table)
    with using_spark(table.name):
        found = snapshots.store.known_versions(table.name, snapshots.log(table)).bisect(**expected)
        metadata = {**_culprit(found), **_rows(found)}
    yield dg.AssetCheckResult(
        passed=found.outcome is Outcome.HOLDS,
        check_name=spec.name,
        asset_key=spec.asset_key,
        severity=severity,
        description=visible(one_line(lines_joined("\n".join(bisection_lines(found)))), MAX_TEXT_LENGTH),
        metadata=metadata,
    )


def _culprit(found: Bisection) -> dict[str, Any]:
    """Return the version and the commit, as far as they are known."""
    entries: dict[str, Any] = {"versions_judged": len(found.steps)}
    if found.last_possible is not None:
        entries |= {"first_possible": found.first_possible, "last_possible": found.last_possible}
    if found.commit is not None:
        by = made_by(found.commit)
        texts = {"operation": found.commit.operation, **{part: by.get(part) for part in PARTS}}
        entries |= {"version": found.commit.version, **{name: visible(text) for name, text in texts.items() if text}}
    return entries


def _rows(found: Bisection) -> dict[str, dg.MetadataValue]:
    if found.rows is None:
        return {}
    rows = found.rows.limit(_MOST_ROWS).to_arrow()
    lines = [[markdown_code(value_text(value)) for value in row] for row in json_rows(rows)]
    return {"some_rows": dg.MetadataValue.md(markdown_table([*map(markdown_code, rows.column_names)], lines))}
