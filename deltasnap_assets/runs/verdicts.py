"""The verdict of a check, and the verdicts that follow from the condition of a table. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from deltasnap_core import Fault, FaultKind, TableCondition

CONTIGUOUS_LOG = "contiguous_log"
READABLE_CHECKPOINT = "readable_checkpoint"
READABLE_PROTOCOL = "readable_protocol"
CONDITION_CHECKS = (CONTIGUOUS_LOG, READABLE_CHECKPOINT, READABLE_PROTOCOL)
"""The checks of `log_segment` that depend on the condition of the table."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The result of a check: whether it passed, and why.

    is_error: the log itself is faulty, not only badly maintained.
    is_evaluated: False: the check could not run. It neither passed nor failed; the description gives the reason.
    advice: what to do if the check failed; empty: the text in `tables/checks/advice.py`.
    """

    passed: bool
    description: str
    advice: str = ""
    is_error: bool = False
    is_evaluated: bool = True
    numbers: Mapping[str, int | float] = field(default_factory=dict)


def with_advice(description: str, advice: str) -> str:
    """Return a description of a problem with advice."""
    return f"{description}\n\nWhat to do: {advice}" if advice else description


def not_evaluated(reason: str) -> Verdict:
    """Return the verdict of a check that could not run."""
    return Verdict(passed=False, is_evaluated=False, description=f"not evaluated: {reason}")


def condition_verdicts(condition: TableCondition, *, checkpoint_known_sound: bool = False) -> dict[str, Verdict]:
    """Return the verdicts of CONDITION_CHECKS.

    checkpoint_known_sound: the pages of the newest checkpoint were read earlier, and it has not changed since.
    """
    unsupported = condition.faults_of(FaultKind.UNSUPPORTED_PROTOCOL)
    if unsupported and not condition.is_readable:
        told = " ".join(fault.text for fault in unsupported)
        others = dict.fromkeys((CONTIGUOUS_LOG, READABLE_CHECKPOINT), not_evaluated(told))
        return {**others, READABLE_PROTOCOL: _failed(unsupported)}
    if condition.latest is None:
        others = dict.fromkeys((READABLE_CHECKPOINT, READABLE_PROTOCOL), not_evaluated(condition.text))
        return {CONTIGUOUS_LOG: _failed(condition.faults), **others}
    return {
        CONTIGUOUS_LOG: contiguous_log(condition),
        READABLE_CHECKPOINT: readable_checkpoint(condition, known_sound=checkpoint_known_sound),
        READABLE_PROTOCOL: _readable_protocol(condition),
    }


def contiguous_log(condition: TableCondition) -> Verdict:
    """Every version from the earliest that can be loaded to the latest of the log can be loaded."""
    lost, loadable, latest = condition.unloadable, condition.loadable, condition.latest
    unsupported = condition.faults_of(FaultKind.UNSUPPORTED_PROTOCOL)
    faults = [fault for fault in condition.faults if fault.versions and fault not in unsupported]
    if not faults:
        first = loadable.runs[0][0] if loadable.runs else latest
        found = f"All versions from {first} to {latest} can be loaded."
        return Verdict(passed=True, description=found, numbers={"missing_versions": 0})
    first = min(loadable.runs[0][0] if loadable.runs else lost.runs[0][0], lost.runs[0][0])
    found = f"Of versions {first} to {latest}, {len(lost):,} cannot be loaded: {lost.text()}. "
    return _failed(faults, found, {"missing_versions": len(lost)})


def readable_checkpoint(condition: TableCondition, *, known_sound: bool = False) -> Verdict:
    """The newest checkpoint can be read completely. known_sound: its pages were read earlier."""
    faults = condition.faults_of(FaultKind.CORRUPT_CHECKPOINT, FaultKind.BROKEN_HINT)
    numbers = {"damaged_checkpoints": len(faults)}
    if faults:
        return _failed(faults, numbers=numbers)
    if not condition.checkpoints_read:
        return Verdict(passed=True, description="There is no checkpoint.", numbers=numbers)
    name = condition.checkpoints_read[0]
    if not condition.pages_read and not known_sound:
        return not_evaluated(f"the pages of {name} were not read.")
    when = "can be read" if condition.pages_read else "could be read, and has not changed since"
    return Verdict(passed=True, description=f"Every page of {name} {when}.", numbers=numbers)


def _readable_protocol(condition: TableCondition) -> Verdict:
    if faults := condition.faults_of(FaultKind.UNSUPPORTED_PROTOCOL, FaultKind.BROKEN_SCHEMA):
        return _failed(faults)
    if not condition.is_readable:
        return not_evaluated(condition.text)
    return Verdict(passed=True, description=f"deltasnap supports what version {condition.latest} needs.")


def _failed(faults: Sequence[Fault], before: str = "", numbers: Mapping[str, int | float] | None = None) -> Verdict:
    """Return the failed verdict for some faults."""
    return Verdict(
        passed=False,
        is_error=any(fault.mark == "error" for fault in faults),
        description=before + " ".join(fault.text for fault in faults),
        advice=" ".join(dict.fromkeys(fault.advice for fault in faults)),
        numbers=numbers or {},
    )
