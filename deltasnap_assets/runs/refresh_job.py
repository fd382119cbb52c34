"""The job that refreshes all tables in one run: `refresh_all_tables`."""

# No `from __future__ import annotations` here: Dagster inspects the annotation of `context` and rejects a string.
# ruff: noqa: I002

from collections.abc import Callable
from contextlib import suppress

import dagster as dg

from deltasnap_assets.dagster_internals import CheckError
from deltasnap_assets.quantities import counted
from deltasnap_assets.runs.planning.names import REFRESH_JOB
from deltasnap_assets.runs.refresh import refresh_table
from deltasnap_assets.runs.table_runs import tables_failed
from deltasnap_assets.settings.config import Settings
from deltasnap_assets.settings.located import use_session
from deltasnap_assets.texts import secrets_hidden, without_secrets
from deltasnap_core.support import SparkProvider


def refresh_job(
    settings: Settings, definitions: Callable[[], dg.Definitions], sessions: SparkProvider
) -> dg.JobDefinition:
    """Return the job `refresh_all_tables`: `deltasnap refresh` in the process and the Spark session of one run.

    It starts separate runs for each table, which record its versions. If a table fails, the others continue; the job
    then fails at its end and reports the error of each failed table.
    definitions: those with the jobs of the tables, for a process without a code location. In a code location, jobs have
    the resources of the whole project. sessions: to look up tables that are in the catalog of the Spark session.
    """

    @dg.op(name=settings.own_name("refresh_each_table"), out=dg.Out(dg.Nothing))
    @secrets_hidden()
    def refresh_each(context: dg.OpExecutionContext) -> None:
        defs: dg.Definitions | dg.RepositoryDefinition = definitions()
        with suppress(CheckError):  # outside of a code location, there is none
            defs = context.repository_def
        use_session(settings.tables, sessions)
        problems = dict[str, str]()
        for table in settings.tables:
            try:
                versions = refresh_table(defs, settings, table, context.instance, log_level="ERROR")
                context.log.info(f"{table.name}: {counted(len(versions), 'version')} materialized")
            except Exception as error:  # noqa: BLE001  # for any error, the other tables are refreshed
                problem = problems[table.name] = without_secrets(str(error))
                context.log.error(f"{table.name}: {problem}")
        if problems:
            raise tables_failed(problems)

    @dg.job(
        name=settings.own_name(REFRESH_JOB),
        description="Materializes all new and missing versions of all tables, one table after another.",
        executor_def=dg.in_process_executor,
    )
    def refresh_all() -> None:
        refresh_each()

    return refresh_all
