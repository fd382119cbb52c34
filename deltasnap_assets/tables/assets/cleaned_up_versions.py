"""Leaves versions out of a run that the log lost while the run waited in the queue."""

from __future__ import annotations

from collections.abc import Sequence

import dagster as dg

from deltasnap_assets.runs.planning.known_table import known_of
from deltasnap_assets.runs.planning.partitions import key_of, version_partitions
from deltasnap_assets.runs.planning.plan import cleaned_up, lost_text
from deltasnap_assets.settings.table_settings import TableSettings
from deltasnap_assets.tables.run_snapshots import RunSnapshots


def without_cleaned_up(
    context: dg.AssetExecutionContext, snapshots: RunSnapshots, table: TableSettings, versions: Sequence[int]
) -> tuple[int, ...]:
    """Return the versions of a run without those that were cleaned up before they were stored.

    Their partitions are removed, as the next plan would: otherwise the run fails, and none of its versions is stored.
    The next run may wait as long.
    """
    first_in_log = min(snapshots.listing(table).reconstructable_versions(), default=0)
    if min(versions) >= first_in_log:
        return tuple(versions)
    done = known_of(context.instance, table).done  # pruned ones keep their partition
    gone = cleaned_up(versions, first_in_log, done.union(snapshots.stored_versions(table)))
    left = tuple(version for version in versions if version not in gone)
    if not gone or not left:  # without any version, the run fails with an error that names the versions of the log
        return tuple(versions)
    for version in gone:
        context.instance.delete_dynamic_partition(version_partitions(table.name).name or "", key_of(version))
    context.log.warning(lost_text(table.name, gone))
    return left
