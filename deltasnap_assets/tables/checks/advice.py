"""What to do when a check fails, by check name. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from deltasnap_assets.runs.verdicts import with_advice as described

ADVICE: Mapping[str, str] = {
    "contiguous_log": "Restore the missing or damaged commits from a backup of the log, or write a checkpoint of a "
    "later version with a writer that still has the table loaded.",
    "readable_checkpoint": "Move the damaged checkpoint out of _delta_log, and write a new one.",
    "checkpoint_lag": "Write a checkpoint: `DeltaTable.create_checkpoint()` of deltalake does so at once, and any "
    "writer does at its `delta.checkpointInterval`.",
    "readable_protocol": "Upgrade to a release of deltasnap that supports the feature, or drop the feature (`ALTER "
    "TABLE ... DROP FEATURE`) for readers that do not support it.",
    "checksum_agrees": "Trust the log, not the checksum. Find the writer of that version (reconstructed_state shows "
    "its engine) and upgrade it.",
    "small_files": "Run `OPTIMIZE`, or configure the writer to make fewer, larger files. If each partition has only "
    "one file, choose a coarser partitioning.",
    "tombstone_ratio": "Lower `delta.deletedFileRetentionDuration` if you do not need time travel that far back. The "
    "next checkpoint then drops expired tombstones.",
    "fresh_table": "Check the job that writes the table. If it writes rarely on purpose, raise `fresh_within_hours` in "
    "the checks of the table.",
    "schema_unchanged": "Check that readers of the table support the new schema. Nothing else to do.",
    "statistics_coverage": "Rewrite the files with statistics (`OPTIMIZE`), or compute them (`ANALYZE TABLE ... "
    "COMPUTE DELTA STATISTICS`): queries cannot skip files without statistics.",
    "even_partitions": "Choose partition columns that divide the rows more evenly, or use clustering instead.",
    "expired_tombstones": "Run `VACUUM`: it deletes the files that no version within the retention needs.",
    "steady_growth": "Check the writer of this version: an import may have run twice, or a delete may have removed too "
    "much.",
}


def with_advice(name: str, description: str, *, passed: bool, advice: str = "") -> str:
    """Return the description of a verdict, with advice if the check failed. advice: replaces the entry in ADVICE."""
    return description if passed else described(description, advice or ADVICE.get(name, ""))
