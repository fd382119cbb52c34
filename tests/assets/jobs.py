"""A Dagster job that does nothing, for tests that need a run, and the ticks of a sensor."""

from __future__ import annotations

from collections.abc import Mapping

import dagster as dg
from dagster._core.remote_origin import (  # no public name
    RegisteredCodeLocationOrigin,
    RemoteJobOrigin,
    RemoteRepositoryOrigin,
)


@dg.op
def _nothing() -> None:
    pass


@dg.job
def idle_job() -> None:
    """Do nothing."""
    _nothing()


def unfinished_run(instance: dg.DagsterInstance, status: dg.DagsterRunStatus, tags: Mapping[str, str]) -> dg.DagsterRun:
    """Return a run of `idle_job` with a status. Dagster requires the origin of a queued one."""
    repository = RemoteRepositoryOrigin(RegisteredCodeLocationOrigin("code"), "__repository__")
    origin = RemoteJobOrigin(repository, idle_job.name)
    return instance.create_run_for_job(idle_job, status=status, tags=tags, remote_job_origin=origin)


def ticked(sensor: dg.SensorDefinition, instance: dg.DagsterInstance, cursor: str | None = None) -> dg.SensorResult:
    """Return the result of one tick, whose partitions are set as Dagster's daemon does."""
    with dg.build_sensor_context(instance=instance, cursor=cursor) as context:
        result = sensor(context)
    assert isinstance(result, dg.SensorResult)
    for request in result.dynamic_partitions_requests or ():
        if isinstance(request, dg.AddDynamicPartitionsRequest):
            instance.add_dynamic_partitions(request.partitions_def_name, [*request.partition_keys])
        else:
            for key in request.partition_keys:
                instance.delete_dynamic_partition(request.partitions_def_name, key)
    return result


def skip_message(result: dg.SensorResult) -> str:
    """Return the message of a tick that skipped; empty if it did not."""
    return "" if result.skip_reason is None else result.skip_reason.skip_message or ""
