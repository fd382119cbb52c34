"""The names of Dagster that are not public, and why each is needed. No other module imports such names.

Another minor release of Dagster may move or change them, so the dependency on Dagster has an upper bound. Each has a
test in `tests/assets/test_dagster_internals.py`.
"""

from __future__ import annotations

# A check that was planned but not evaluated; a check result linked to the materialization that it judges.
from dagster._core.definitions.asset_checks.asset_check_evaluation import (
    AssetCheckEvaluationPlanned,
    AssetCheckEvaluationTargetMaterializationData,
)

# `dg.AssetsDefinition` of an observable asset takes it.
from dagster._core.definitions.assets.definition.asset_spec import AssetExecutionType

# Whether Dagster loads definitions, and where their state is kept.
from dagster._core.definitions.definitions_load_context import DefinitionsLoadContext

# `dg.define_asset_job` returns an instance of it.
from dagster._core.definitions.unresolved_asset_job_definition import UnresolvedAssetJobDefinition

# Events outside a run.
from dagster._core.instance.utils import RUNLESS_JOB_NAME, RUNLESS_RUN_ID

# Selects results of checks.
from dagster._core.storage.asset_check_execution_record import AssetCheckExecutionRecordStatus

# The type of `defs.yaml` keys that change asset specs, as in Dagster's own integrations.
from dagster.components.utils.translation import TranslationFn, TranslationFnResolver

# Raised for a property that a context does not have; the packages that a code location shows.
from dagster_shared.check import CheckError
from dagster_shared.libraries import DagsterLibraryRegistry
from dagster_shared.serdes.objects.models.defs_state_info import DefsStateManagementType

__all__ = [
    "RUNLESS_JOB_NAME",
    "RUNLESS_RUN_ID",
    "AssetCheckEvaluationPlanned",
    "AssetCheckEvaluationTargetMaterializationData",
    "AssetCheckExecutionRecordStatus",
    "AssetExecutionType",
    "CheckError",
    "DagsterLibraryRegistry",
    "DefinitionsLoadContext",
    "DefsStateManagementType",
    "TranslationFn",
    "TranslationFnResolver",
    "UnresolvedAssetJobDefinition",
]
