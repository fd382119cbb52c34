"""Judges of the checks of the log: its condition, its checkpoints and checksums."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from deltasnap_assets.checks.check import Verdict, not_evaluated, nothing_to_compare
from deltasnap_assets.quantities import counted
from deltasnap_core import ProblemKind
from deltasnap_core.support import cleanup_orphans as find_orphans, is_catalog_managed

if TYPE_CHECKING:
    from deltasnap_assets.checks.check_settings import CheckSettings
    from deltasnap_assets.checks.facts import PageFacts, TableFacts
    from deltasnap_core import Problem, TableCondition

_MAX_SHOWN = 10
_KEEPS_CHECKPOINTS = (("Delta-Lake/", (4, 0, 1)), ("delta-rs:py-", (1, 1, 0)))
"""How `engineInfo` names the writers whose cleanup keeps the checkpoint before the retention, from which release on."""
_WARNINGS = (
    *(kind for kind in ProblemKind if kind.is_in_commits),
    ProblemKind.LOST_VERSIONS,
    ProblemKind.UNPUBLISHED_COMMIT,
)


def unsupported(condition: TableCondition) -> str:
    """Return why deltasnap does not support the latest version of a table; empty: it does, or unknown."""
    faults = (fault for fault in condition.faults if fault.kind.is_of_protocol)
    return "" if condition.is_readable else " ".join(fault.text for fault in faults)


def failed(faults: Sequence[Problem], before: str = "", numbers: Mapping[str, int | float] | None = None) -> Verdict:
    """Return the failed verdict for some faults. before: text before theirs."""
    return Verdict(
        passed=False,
        severity="error" if any(fault.mark == "error" for fault in faults) else "warning",
        description=before + " ".join(fault.text for fault in faults),
        advice=" ".join(dict.fromkeys(fault.advice for fault in faults)),
        numbers=numbers or {},
    )


def contiguous_log(condition: TableCondition) -> Verdict:
    """Every version from the earliest loadable one to the latest can be loaded, and no version was lost."""
    if reason := unsupported(condition):
        return not_evaluated(reason)
    if condition.latest is None:
        return failed(condition.faults)
    lost, loadable, latest = condition.unloadable, condition.loadable, condition.latest
    faults = [fault for fault in condition.faults if fault.versions and not fault.kind.is_of_protocol]
    if not faults:
        first = loadable.runs[0][0] if loadable.runs else latest
        found, numbers = f"All versions from {first} to {latest} can be loaded.", {"missing_versions": 0}
        if warnings := condition.faults_of(*_WARNINGS):
            return failed(warnings, f"{found} ", numbers)
        return Verdict(passed=True, description=found, numbers=numbers)
    first = min(loadable.runs[0][0] if loadable.runs else lost.runs[0][0], lost.runs[0][0])
    found = f"Of versions {first} to {latest}, {len(lost):,} cannot be loaded: {lost.text()}. "
    return failed(faults, found, {"missing_versions": len(lost)})


def readable_checkpoint(condition: TableCondition, *, checkpoint_known_sound: bool = False) -> Verdict:
    """The newest checkpoint can be read completely, now or when its pages were last read, and has the right files.

    checkpoint_known_sound: the pages of the newest checkpoint were read before, and it has not changed since then.
    """
    if reason := unsupported(condition):
        return not_evaluated(reason)
    if condition.latest is None:
        return not_evaluated(condition.text)
    faults = [fault for fault in condition.faults if fault.kind.is_of_checkpoint_or_hint]
    numbers = {"damaged_checkpoints": len(faults)}
    if faults:
        return failed(faults, numbers=numbers)
    if not condition.checkpoints_read:
        return Verdict(passed=True, description="There is no checkpoint.", numbers=numbers)
    name = condition.checkpoints_read[0]
    if not condition.pages_read and not checkpoint_known_sound:
        return not_evaluated(f"the pages of {name} were not read.")
    when = "is readable" if condition.pages_read else "was readable, and has not changed since then"
    return Verdict(passed=True, description=f"Every page of {name} {when}.", numbers=numbers)


def readable_protocol(condition: TableCondition) -> Verdict:
    """deltasnap supports the protocol and schema of the latest version."""
    protocol = [fault for fault in condition.faults if fault.kind.is_of_protocol]
    if protocol and not condition.is_readable:
        return failed(protocol)
    if condition.latest is None:
        return not_evaluated(condition.text)
    if faults := [*protocol, *(fault for fault in condition.faults if fault.kind.is_of_schema)]:
        return failed(faults)
    if not condition.is_readable:
        return not_evaluated(condition.text)
    return Verdict(passed=True, description=f"deltasnap supports all features of version {condition.latest}.")


def readable_protocol_of_run(facts: TableFacts, _: CheckSettings) -> Verdict:
    """Return the verdict of `readable_protocol`, with the reader version if a state is stored."""
    verdict, state = readable_protocol(facts.condition), facts.loadable_state
    if not verdict.passed or state is None or state.protocol is None:
        return verdict
    needed = state.protocol.min_reader_version
    text = f"Reader version {needed} is supported."
    if is_catalog_managed(state.protocol) and not facts.is_catalog_known:
        text += " A catalog manages the table and was not queried: versions that it has not published are unknown."
    return replace(verdict, description=text, numbers={"min_reader_version": needed})


def checksum_agrees(facts: TableFacts, _: CheckSettings) -> Verdict:
    """The `.crc` files match the stored states.

    It blocks: if a stored state contradicts the writer's checksum, the rest of the run must not use it. The newest
    version is compared in every run, but blocks only the runs that materialize it. A writer may add the file after its
    version is stored: the run of the next version compares it.
    """
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


def checkpoint_lag(facts: PageFacts, settings: CheckSettings) -> Verdict:
    """The number of commits after the newest checkpoint is within the limit."""
    lag, most = len(facts.segment.deltas), settings.max_commits_since_checkpoint
    since = "and no checkpoint" if facts.segment.checkpoint_provider.is_empty else "since the last checkpoint"
    return Verdict(
        passed=lag <= most,
        description=f"{counted(lag, 'commit')} {since}, at most {most:,} expected.",
        numbers={"commits_since_checkpoint": lag},
    )


def cleanup_orphans(facts: TableFacts, _: CheckSettings) -> Verdict:
    """The next cleanup of the log keeps what the versions within the retention are loaded from."""
    lost = find_orphans(facts.listing, facts.configuration, facts.now_ms)
    numbers = {"cleanup_orphans": len(lost)}
    if not lost:
        text = "The next cleanup of the log keeps every version within delta.logRetentionDuration readable."
        return Verdict(passed=True, description=text, numbers=numbers)
    if _keeps_checkpoints(facts.engine or ""):
        text = f"A cleanup by {facts.engine} keeps the checkpoint that versions within the retention need."
        return Verdict(passed=True, description=text, numbers={"cleanup_orphans": 0})
    versions = f"version{'' if len(lost) == 1 else 's'} {lost.text()}"
    return Verdict(
        passed=False,
        description=f"The next cleanup of the log makes {versions} unreadable, although they are within "
        "delta.logRetentionDuration: it deletes the older files, and no checkpoint is left for them.",
        advice=f"Run `deltasnap checkpoint PATH --version {lost[0]}`: a cleanup then keeps these versions readable.",
        numbers=numbers,
    )


def _keeps_checkpoints(engine: str) -> bool:
    for name, since in _KEEPS_CHECKPOINTS:
        found = re.search(re.escape(name) + r"(\d+)\.(\d+)\.(\d+)", engine)
        if found is not None:
            return tuple(map(int, found.groups())) >= since
    return False
