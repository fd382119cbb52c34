"""The check `checksum_agrees`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from deltasnap_assets.checks.check import Limits, TableCheck, Verdict, nothing_to_compare
from deltasnap_assets.quantities import counted

if TYPE_CHECKING:
    from deltasnap_assets.checks.facts import TableFacts

_MAX_SHOWN = 10


class ChecksumAgrees(TableCheck[Limits]):
    """The `.crc` files match the stored states.

    It blocks: if a stored state contradicts the writer's checksum, the rest of the run must not use it. The newest
    version is compared in every run, but blocks only the runs that materialize it. A writer may add the file after its
    version is stored: the run of the next version compares it.
    """

    name = "checksum_agrees"
    asset = "computed_state"
    expects = "The version checksums (`.crc` files) match the states from the log."
    advice = (
        "Trust the log, not the checksum. Find the writer of that version (reconstructed_state shows its engine) and "
        "upgrade it."
    )
    severity = "error"
    is_blocking = True

    def verdict(self, facts: TableFacts, limits: Limits) -> Verdict:  # noqa: ARG002  # it has no limits
        differences = facts.checksum_differences
        wrong = {version: found for version, found in differences.items() if found}
        numbers = {"checksums_compared": len(differences), "checksums_wrong": len(wrong)}
        if not wrong and (unread := facts.unreadable_checksums):
            versions = f"version{'' if len(unread) == 1 else 's'} {', '.join(map(str, unread[:_MAX_SHOWN]))}"
            return Verdict(
                passed=False,
                severity="warning",
                description=f"{counted(len(unread), 'checksum')} cannot be read: {versions}. The log is read instead.",
                advice="Delete the damaged `.crc` files. Spark writes one with its next commit.",
                numbers=numbers,
            )
        if not wrong:
            if not differences:
                return nothing_to_compare("neither a version of the run nor the newest one has a checksum.")
            compared = f"The log agrees with {counted(len(differences), 'checksum')}."
            return Verdict(passed=True, description=compared, numbers=numbers)
        texts = "; ".join(
            f"version {version}: {', '.join(difference.field for difference in found)}"
            for version, found in sorted(wrong.items())[:_MAX_SHOWN]
        )
        description = f"The log differs from {counted(len(wrong), 'checksum')}: {texts}."
        is_of_run = any(version in facts.versions or version == facts.late_checksum for version in wrong)
        return Verdict(passed=False, is_of_run=is_of_run, description=description, numbers=numbers)
