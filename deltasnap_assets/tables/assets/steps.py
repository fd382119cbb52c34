"""Assets, observations and asset checks as steps of a run, built from their parts.

Dagster's decorators do the same with a function, but inspect it a dozen times: for a thousand tables that takes two
thirds of the time to build all definitions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache, partial, wraps
from typing import Any

import dagster as dg

from deltasnap_assets.dagster_internals import AssetExecutionType
from deltasnap_assets.settings.table_settings import TableSettings
from deltasnap_assets.tables.assets.io_manager import IO_MANAGER_KEY, NO_INPUTS
from deltasnap_assets.texts import secrets_hidden
from deltasnap_core.errors import StorageError

SNAPSHOTS_KEY = "snapshots"
"""The resource of every step, `context.resources.snapshots`; in a project with several stores, with a suffix."""
STORAGE_RETRIES = dg.RetryPolicy(max_retries=3, delay=5, backoff=dg.Backoff.EXPONENTIAL)
"""The retries of a step after a transient failure of the storage, with pauses of 5, 15 and 35 s.

A run writes no events in a pause, and a refresh does not end on SIGINT. So the pauses are short.
"""

_RESULT = "result"
# Dagster resolves the type of an input or output each time that one is made.
_INPUT = dg.In(dg.Nothing)
_asset_of = cache(partial(dg.Out, dg.Nothing))
_OBSERVED = dg.Out(dg.Nothing, io_manager_key=next(iter(NO_INPUTS)))
_CHECK = dg.Out(Any, is_required=False)  # the default type

Compute = Callable[[Any], Iterable[Any]]
"""The generator of a step's events, from its context. It has no inputs: data passes through the store.

Dagster inspects the annotation of the context and rejects a string.
"""


def asset_step(table: TableSettings, spec: dg.AssetSpec, compute: Compute) -> dg.AssetsDefinition:
    """Return an asset of a table whose partitions can be materialized in one run, in any range."""
    inputs = _inputs(dep.asset_key for dep in spec.deps)
    op = dg.OpDefinition(
        compute_fn=_retried(compute),
        name=spec.key.to_python_identifier(),
        description=spec.description,
        ins=dict.fromkeys(inputs, _INPUT),
        outs={_RESULT: _asset_of(io_manager_key=table.own_name(IO_MANAGER_KEY))},
        required_resource_keys={table.own_name(SNAPSHOTS_KEY)},
    )
    return dg.AssetsDefinition(
        keys_by_input_name=inputs,
        keys_by_output_name={_RESULT: spec.key},
        node_def=op,
        specs=[spec],
        backfill_policy=dg.BackfillPolicy.single_run(),
    )


def observation_step(spec: dg.AssetSpec, compute: Compute) -> dg.AssetsDefinition:
    """Return an external asset that a run can observe."""
    name, inputs = spec.key.to_python_identifier(), _inputs(dep.asset_key for dep in spec.deps)
    op = dg.OpDefinition(
        compute_fn=_retried(compute),
        name=name,
        config_schema={},  # no configuration
        ins=dict.fromkeys(inputs, _INPUT),
        outs={name: _OBSERVED},
    )
    return dg.AssetsDefinition(
        keys_by_input_name=inputs,
        keys_by_output_name={name: spec.key},
        node_def=op,
        specs=[spec],
        resource_defs=NO_INPUTS,
        execution_type=AssetExecutionType.OBSERVATION,
    )


def checks_step(
    table: TableSettings,
    name: str,
    specs: Sequence[dg.AssetCheckSpec],
    compute: Compute,
    *,
    needs_snapshots: bool = True,
) -> dg.AssetChecksDefinition:
    """Return asset checks of a table that are evaluated in one step, or a subset of them.

    needs_snapshots: whether it uses `context.resources.snapshots`, which may initialize a Spark session.
    """
    inputs, outputs = _inputs(spec.asset_key for spec in specs), {spec.get_python_identifier(): spec for spec in specs}
    op = dg.OpDefinition(
        compute_fn=_retried(compute),
        name=name,
        config_schema={},  # no configuration
        ins=dict.fromkeys(inputs, _INPUT),
        outs=dict.fromkeys(outputs, _CHECK),
        required_resource_keys={table.own_name(SNAPSHOTS_KEY)} if needs_snapshots else set(),
    )
    checks: dg.AssetChecksDefinition = dg.AssetChecksDefinition.create(
        keys_by_input_name=inputs, node_def=op, check_specs_by_output_name=outputs, can_subset=True
    )
    return checks


def snapshots_of(context: Any, table: TableSettings) -> Any:
    """Return the resource of a step of a table, RunSnapshots."""
    return getattr(context.resources, table.own_name(SNAPSHOTS_KEY))


def _retried(compute: Compute) -> Callable[[Any, Mapping[str, Any]], Iterator[Any]]:
    """Return a step without credentials in its errors, which Dagster retries after a transient failure of the storage.

    Any other error fails the step at once. A retry policy of the op would also retry those, and a step that a user
    stopped.
    """

    @wraps(compute)
    def step(context: Any, _: Mapping[str, Any]) -> Iterator[Any]:
        try:
            with secrets_hidden():
                yield from compute(context)
        except StorageError as error:
            retries, number = STORAGE_RETRIES, context.retry_number + 1
            if not error.is_transient or number > retries.max_retries:
                raise
            raise dg.RetryRequested(retries.max_retries, retries.calculate_delay(number)) from error

    return step


def _inputs(keys: Iterable[dg.AssetKey]) -> dict[str, dg.AssetKey]:
    return {key.to_python_identifier(): key for key in keys}
