"""Why a run failed: the error of its first failed step, the checks that blocked it, or the error of its process."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import dagster as dg

from deltasnap_assets.texts import lines_joined


def failure_reason(instance: dg.DagsterInstance, run_id: str) -> str:
    """Return the error of the first failed step of a run, else the message of the run."""
    kinds = {
        dg.DagsterEventType.STEP_FAILURE,
        dg.DagsterEventType.RUN_FAILURE,
        dg.DagsterEventType.ENGINE_EVENT,
        dg.DagsterEventType.ASSET_CHECK_EVALUATION,
    }
    events = [entry.dagster_event for entry in instance.all_logs(run_id, of_type=kinds) if entry.dagster_event]
    messages = (event.message for event in reversed(events) if event.is_failure and event.message)
    return reason_of(events) or next(messages, "see its log")


def reason_of(events: Iterable[dg.DagsterEvent]) -> str | None:
    """Return the error of the first failed step or of the run: the first one that is not Dagster's own, with its text.

    A run fails without a failed step if its resources cannot be created. If checks blocked it, they are the reason. If
    its process could not start, for example because the configuration is invalid, the engine reported the reason.
    """
    blocking, of_engine = list[str](), list[str]()
    for event in events:
        if event.event_type is dg.DagsterEventType.ASSET_CHECK_EVALUATION:
            blocking.extend(_blocking(event.asset_check_evaluation_data))
            continue
        # A run that a user or another process recorded as failed has no data.
        error = getattr(event.event_specific_data, "error", None)
        is_failure = event.is_step_failure or event.is_job_failure
        if error is not None and (is_failure or event.is_engine_event):
            while error.cause is not None and (error.cls_name or "").startswith("Dagster"):
                error = error.cause
            if error.cls_name == "DagsterAssetCheckFailedError" and blocking:
                return " ".join(dict.fromkeys(blocking))
            name, _, text = error.message.strip().partition(": ")
            is_own = name.startswith(("deltasnap_core.", "deltasnap_assets."))
            kind = name.rpartition(".")[2]
            if kind == "DagsterExecutionInterruptedError":  # it has no text
                kind = "its process was interrupted"
            reason = lines_joined(text if is_own else f"{kind}: {text}" if text else kind)
            if is_failure:
                return reason
            of_engine.append(reason)
    return of_engine[0] if of_engine else None


def _blocking(check: dg.AssetCheckEvaluation) -> Iterator[str]:
    """Yield the sentence of a check that ended its run, with its advice on the same line."""
    if check.blocking and not check.passed and check.severity is dg.AssetCheckSeverity.ERROR:
        text = " ".join((check.description or "it failed").split())
        yield f"{check.asset_key.to_user_string()}: {check.check_name}: {text}"
