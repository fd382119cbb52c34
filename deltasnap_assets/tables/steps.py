"""Assets and asset checks, each a step of a run, put together from their parts.

Dagster's decorators make the same of a function, and inspect it a dozen times: for a thousand tables that takes two
thirds of the time that all their definitions do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import dagster as dg

from deltasnap_assets.tables.io_manager import IO_MANAGER_KEY

SNAPSHOTS_KEY = "snapshots"
"""The resource that every step is given: `context.resources.snapshots`."""

_RESULT = "result"

Compute = Callable[[Any, Mapping[str, Any]], Iterable[Any]]
"""A step's generator of events, of its context and of its inputs, which are none: all that passes is in the store.

Dagster reads the annotation of the context, and takes no text for it.
"""


def asset_step(spec: dg.AssetSpec, compute: Compute) -> dg.AssetsDefinition:
    """Return an asset of which any range of partitions is materialized in one run."""
    inputs = _inputs(dep.asset_key for dep in spec.deps)
    op = dg.OpDefinition(
        compute_fn=compute,
        name=spec.key.to_python_identifier(),
        description=spec.description,
        ins=dict.fromkeys(inputs, dg.In(dg.Nothing)),
        outs={_RESULT: dg.Out(dg.Nothing, io_manager_key=IO_MANAGER_KEY)},
        required_resource_keys={SNAPSHOTS_KEY},
    )
    return dg.AssetsDefinition(
        keys_by_input_name=inputs,
        keys_by_output_name={_RESULT: spec.key},
        node_def=op,
        specs=[spec],
        backfill_policy=dg.BackfillPolicy.single_run(),
    )


def checks_step(name: str, specs: Sequence[dg.AssetCheckSpec], compute: Compute) -> dg.AssetChecksDefinition:
    """Return asset checks that are evaluated in one step, or some of them."""
    inputs, outputs = _inputs(spec.asset_key for spec in specs), {spec.get_python_identifier(): spec for spec in specs}
    op = dg.OpDefinition(
        compute_fn=compute,
        name=name,
        config_schema={},  # none is taken
        ins=dict.fromkeys(inputs, dg.In(dg.Nothing)),
        outs=dict.fromkeys(outputs, dg.Out(is_required=False)),
        required_resource_keys={SNAPSHOTS_KEY},
    )
    checks: dg.AssetChecksDefinition = dg.AssetChecksDefinition.create(
        keys_by_input_name=inputs, node_def=op, check_specs_by_output_name=outputs, can_subset=True
    )
    return checks


def _inputs(keys: Iterable[dg.AssetKey]) -> dict[str, dg.AssetKey]:
    return {"_".join(key.path): key for key in keys}
