"""What to do when a check fails, by check name. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from deltasnap_assets.runs.verdicts import with_advice as described

ADVICE: Mapping[str, str] = {
    "contiguous_log": "Restore the missing or damaged commits from a backup of the log, or write a checkpoint of a "
    "later version with a writer that still has the table loaded.",
    "readable_checkpoint": "Move the damaged checkpoint out of _delta_log, and write a new one.",
    "checkpoint_lag": "Have a checkpoint written (any writer does at its `delta.checkpointInterval`; "
    "`DeltaTable.create_checkpoint()` of deltalake does at once).",
    "readable_protocol": "Look for a release of deltasnap that knows the feature, or drop it (`ALTER TABLE ... DROP "
    "FEATURE`) where readers are to be served that lack it.",
    "checksum_agrees": "Believe the log, not the checksum: find the writer of that version (its engine is on the page "
    "of reconstructed_state), and have it upgraded.",
    "small_files": "Run `OPTIMIZE`, or have the writer make fewer, larger files; where each partition has one file by "
    "now, partition by something coarser.",
    "tombstone_ratio": "Lower `delta.deletedFileRetentionDuration` if time travel that far is not needed: tombstones "
    "go with the first checkpoint after it.",
    "fresh_table": "Look at the job that writes the table; where it is meant to write seldom, raise "
    "`fresh_within_hours` among the table's checks.",
    "schema_unchanged": "See that those who read the table can live with it; nothing has to be done here.",
    "statistics_coverage": "Have the files written again with statistics (`OPTIMIZE`, or `ANALYZE TABLE ... COMPUTE "
    "DELTA STATISTICS`): queries cannot skip files without them.",
    "even_partitions": "Partition by something that divides the rows more evenly, or cluster instead.",
    "expired_tombstones": "Run `VACUUM`: it deletes what no version within the retention needs.",
    "steady_growth": "Look at what wrote this version: an import that ran twice, or a delete that took too much?",
}


def with_advice(name: str, description: str, *, passed: bool, advice: str = "") -> str:
    """Return the description of a verdict, with advice if the check failed. advice: replaces the entry in ADVICE."""
    return description if passed else described(description, advice or ADVICE.get(name, ""))
