"""`deltasnap doctor`: checks what a refresh needs, with advice for each problem."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Literal
from uuid import uuid4

import dagster as dg
from pydantic import SecretStr

from deltasnap_assets.command.local.local_instance import local_home, update_settings
from deltasnap_assets.command.views.condition_view import counted_versions
from deltasnap_assets.quantities import counted
from deltasnap_assets.runs.attached import missing_assets
from deltasnap_assets.runs.condition.services import check_apprise, service_of
from deltasnap_assets.runs.fleet import unfollowed_tables
from deltasnap_assets.runs.stores import log_of, store_of
from deltasnap_assets.runs.table_runs import TableRuns, failed_run
from deltasnap_assets.settings.config import Settings
from deltasnap_assets.settings.loading import NoConfigError, find_config, load_settings
from deltasnap_assets.settings.table_settings import TableSettings
from deltasnap_assets.settings.yaml_source import ConfigError
from deltasnap_assets.spark.connect_check import check_remote
from deltasnap_assets.spark.java import check_java
from deltasnap_assets.tables.checks.run_facts import HISTORY
from deltasnap_assets.texts import lines_joined, visible
from deltasnap_core import (
    DeltaSnapError,
    Problem,
    ProblemKind,
    SnapshotStore,
    TableCondition,
)
from deltasnap_core.errors import CorruptStoreError, StorageError, UnsupportedStoreError
from deltasnap_core.support import (
    Severity,
    damaged_store,
    how_to_install,
    is_url,
    of_another_table,
    to_url,
)

_MAX_MESSAGE_LENGTH = 4000
_DATABASE_PACKAGES = ("alembic", "sqlalchemy", "sqlite3")

CheckMark = Literal["ok", "warning", "error"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """The result of one check. problem: None: there is none. condition: of a table."""

    subject: str
    message: str
    problem: Problem | None = None
    condition: TableCondition | None = None

    @classmethod
    def of(cls, subject: str, problem: Problem, condition: TableCondition | None = None) -> Finding:
        """Return the result with a problem."""
        return cls(subject=subject, message=_line(problem.text), problem=problem, condition=condition)

    @property
    def mark(self) -> CheckMark:
        """`ok` without a problem."""
        return "ok" if self.problem is None else self.problem.mark

    @property
    def advice(self) -> str:
        """What to do; empty: nothing."""
        return "" if self.problem is None else self.problem.advice


def examine() -> Iterator[Finding]:
    """Yield the results of all checks: Java, Spark, the Connect server, configuration, tables, store, runs, alerts."""
    warnings = list[str]()
    settings = _settings(warnings.append)
    remote = settings.spark.remote if isinstance(settings, Settings) else None
    yield _try(
        "Java", lambda: str(check_java()), f"Install Java 17 or later, or {how_to_install('java')}.", remote is None
    )
    yield _try("Spark", lambda: f"pyspark {_version_of('pyspark')}", "Install pyspark 4.0 or later.")
    if remote is not None:
        yield _try("Spark Connect", lambda: _answer_of(remote), "Start the server, or correct spark.remote.")
    if isinstance(settings, list):
        yield from settings
        return
    file = find_config(os.environ, Path.cwd())
    message = f"{file}: {', '.join(table.name for table in settings.tables) or 'no table'}"
    yield Finding(subject="configuration", message=message)
    for warning in warnings:
        advice = "Correct the pattern, unless its tables come later."
        yield _bad("discover", "warning", visible(warning), advice)
    yield from _unfollowed_tables(settings)
    yield from _repeated_paths(settings)
    yield from _other_tables(settings)
    for table in settings.tables:
        yield _table(settings, table)
    damaged = list[Finding]()
    found = _try("store", lambda: _store_message(settings, damaged), "Correct storage or storage_options.")
    yield from damaged if damaged and found.mark == "ok" else [found, *damaged]
    yield from _runs(settings)
    if settings.alerts.urls:
        yield _try(
            "alerts", lambda: _services_of(settings.alerts.urls), "Correct the key `alerts`, or install the extra."
        )


def is_well(findings: list[Finding]) -> bool:
    """Return whether no check failed. Warnings do not count."""
    return all(finding.mark != "error" for finding in findings)


def _settings(on_no_table: Callable[[str], None]) -> Settings | list[Finding]:
    """Return the settings, or one finding for each problem of the configuration."""
    try:
        return load_settings(on_no_table=on_no_table)
    except DeltaSnapError as error:
        problems = error.lines if isinstance(error, ConfigError) else [str(error)]
        advice = "" if isinstance(error, NoConfigError) else "Correct the file, or generate one with `deltasnap init`."
        return [_bad("configuration", "error", _line(problem), advice) for problem in problems]


def _bad(subject: str, severity: Severity, text: str, advice: str) -> Finding:
    return Finding.of(subject, Problem.of_check(check=subject, severity=severity, text=text, advice=advice))


def _line(text: str) -> str:
    return visible(lines_joined(text), _MAX_MESSAGE_LENGTH)


def _error_line(error: Exception) -> str:
    what = "" if isinstance(error, DeltaSnapError) else f"{type(error).__name__}: "
    return _line(f"{what}{error}")


def _try(subject: str, probe: Callable[[], str], advice: str, is_needed: bool = True) -> Finding:
    try:
        return Finding(subject=subject, message=visible(probe()))
    except Exception as error:  # noqa: BLE001  # doctor reports any error
        return _bad(subject, "error" if is_needed else "warning", _error_line(error), advice)


def _runs(settings: Settings) -> Iterator[Finding]:
    """Yield the runs in progress, and whether Dagster repeats runs whose process died."""
    home = local_home()
    if not home.exists():
        yield Finding(subject="runs", message=f"none: there is no Dagster instance at {home}")
        return
    findings = list[Finding]()
    try:
        update_settings(home)
        with dg.DagsterInstance.from_config(str(home)) as instance:
            findings.extend(_runs_of(instance, table) for table in settings.tables)
            for text in missing_assets(instance, settings.tables):
                findings.append(_bad("assets", "warning", text, "If its first run is still to come, wait for it."))
            if not instance.run_retries_enabled:
                message = "run retries are not enabled: Dagster does not repeat a run whose process died"
                advice = f"Add `run_retries: {{enabled: true, max_retries: 0}}` to {home / 'dagster.yaml'}."
                findings.append(_bad("run retries", "warning", message, advice))
    except Exception as error:  # noqa: BLE001  # doctor reports any error and still shows the other results
        advice = _advice_for(error, home)
        findings.append(_bad("runs", "error", _error_line(error), advice))
    yield from findings


def _advice_for(error: BaseException | None, home: Path) -> str:
    """Return what to do if the instance cannot be opened."""
    while error is not None:
        if isinstance(error, PermissionError):
            return f"Correct the permissions of {home}."
        if type(error).__module__.partition(".")[0] in _DATABASE_PACKAGES:
            return (
                f"If it fails again, stop deltasnap and Dagster, and move {home} away. Stored versions are kept; the "
                "history of runs is lost."
            )
        error = error.__cause__ or error.__context__
    return f"Correct {home / 'dagster.yaml'}."


def _runs_of(instance: dg.DagsterInstance, table: TableSettings) -> Finding:
    subject, runs = f"runs of {table.name}", TableRuns.of(instance, [table])[table.name]
    run, last = runs.active, failed_run(instance, table)
    if runs.silent:
        message = f"{runs.silent[0].dagster_run.run_id} has written no event for ten minutes, and may be dead"
        advice = "If its process is gone, terminate it in the UI. Its versions are requested again without that."
        return _bad(subject, "warning", message, advice)
    if last is not None and run is None:
        message = f"the last run failed, {last.where.name}: {_line(last.reason)}"
        advice = f"Run `deltasnap refresh {table.name}` to retry."
        return _bad(subject, "warning", message, advice)
    return Finding(subject=subject, message="none in progress" if run is None else f"{run} is in progress")


def _services_of(urls: Sequence[SecretStr]) -> str:
    """Return how many services get alerts. Sends nothing. Errors: DeltaSnapError."""
    check_apprise()
    for place, url in enumerate(urls):
        if service_of(url.get_secret_value()) is None:
            raise DeltaSnapError(f"`alerts.urls[{place}]` is of no kind that Apprise knows")
    return counted(len(urls), "service")


def _answer_of(remote: str) -> str:
    check_remote(remote)
    return "responds"


def _repeated_paths(settings: Settings) -> Iterator[Finding]:
    """Yield a warning for each table that is configured under several names. Each is read and stored separately."""
    names: dict[str, list[str]] = {}
    for table in settings.tables:
        place = json.dumps([table.table or to_url(table.path), table.storage_options], sort_keys=True, default=str)
        names.setdefault(place, []).append(table.name)
    for same in names.values():
        if len(same) > 1:
            message = f"{', '.join(same)} have the same path: it is read and stored {counted(len(same), 'time')}."
            advice = "Remove all but one of them, unless they need different settings."
            yield _bad("paths", "warning", message, advice)


def _unfollowed_tables(settings: Settings) -> Iterator[Finding]:
    with suppress(DeltaSnapError):  # the store is checked separately
        for name, problem in unfollowed_tables(settings).items():
            yield Finding(subject="discover", message=_line(f"{name}: {problem.text}"), problem=problem)


def _other_tables(settings: Settings) -> Iterator[Finding]:
    """Yield a warning for each table whose name has another table in the store."""
    with suppress(DeltaSnapError):  # the store is checked separately
        polls = store_of(settings).polls
        for table in settings.tables:
            if (poll := polls.read(table.name)) is not None and poll.is_elsewhere(table.place):
                yield Finding.of(f"name {table.name}", of_another_table(poll))


def _table(settings: Settings, table: TableSettings) -> Finding:
    """Return whether any reader can load every version of a table, and its known faults that the log does not show."""
    subject = f"table {table.name}"
    try:
        condition = log_of(table).condition(first=0)
    except DeltaSnapError as error:  # of a path without a usable storage
        message = _line(str(error))
        return _bad(subject, "error", message, "Correct its path or storage_options.")
    condition = condition.with_known_faults(_faults_beside_stored(settings, table, condition))
    if condition.faults:
        loadable = f" Loadable: {counted_versions(condition.loadable)}." if condition.loadable else ""
        is_error = condition.mark == "error" or bool(condition.faults_of(ProblemKind.CORRUPT_CHECKPOINT))
        severity: Severity = "error" if is_error else "warning"  # other readers fail on a damaged checkpoint
        advice = _line(" ".join(dict.fromkeys(fault.advice for fault in condition.faults)))
        problem = Problem.of_check(check=subject, severity=severity, text=f"{condition.text}{loadable}", advice=advice)
        return Finding.of(subject, problem, condition)
    if (reason := table.why_none_wanted(condition.latest)) is not None:
        return Finding.of(subject, Problem.of(ProblemKind.NO_WANTED_VERSION, reason=reason), condition)
    return Finding(subject=subject, message=f"version {condition.latest} can be read", condition=condition)


def _faults_beside_stored(settings: Settings, table: TableSettings, condition: TableCondition) -> list[Problem]:
    """Return the faults that polls and runs found by comparison with stored versions, if the log is still the same."""
    with suppress(DeltaSnapError):  # the store is checked separately
        if (poll := store_of(settings).polls.read(table.name)) is not None:
            still = {
                ProblemKind.WRONG_CHECKPOINT: poll.examined_checkpoint == condition.checkpoint,
                ProblemKind.LOST_VERSIONS: poll.latest_version == condition.latest,
            }
            return [problem for problem in poll.problems if still.get(problem.kind)]
    return []


def _store_message(settings: Settings, damaged: list[Finding]) -> str:
    """Return a summary of the store. damaged: receives an error for each table whose recent versions cannot be read."""
    _check_writable(settings)
    store, counts = store_of(settings), list[int]()
    for table in settings.tables:
        of_table = store.table(table.name)
        current = of_table.current_names()
        counts.append(len(current))
        try:
            recent = of_table.manifests([*current][-HISTORY:], current)  # those that the next run reads
            of_table.check_files(recent.values())
        except CorruptStoreError as error:
            damaged.append(Finding.of("store", damaged_store(error)))
        except UnsupportedStoreError as error:
            damaged.append(_bad("store", "error", str(error), ""))
    stored = f"{counted(sum(counts), 'version')} of {counted(sum(map(bool, counts)), 'table')}"
    return f"{settings.storage}: {stored if any(counts) else 'no version is stored yet'}"


def _check_writable(settings: Settings) -> None:
    """Write a small file to the store and delete it, with the folders that it needed. Errors: DeltaSnapError."""
    root = existing = settings.storage
    if not is_url(root):
        existing = str(next(folder for folder in (Path(root), *Path(root).parents) if folder.exists()))
        if not Path(existing).is_dir():
            raise DeltaSnapError(f"{root} cannot be the store: {existing} is not a folder")
    # Deleting a file also deletes the folders that become empty, up to the root of the storage.
    storage = SnapshotStore.open(None, existing, settings.storage_options).polls.storage
    file = f"{SnapshotStore.open(None, root, settings.storage_options).root}/@doctor-{uuid4().hex}/file"
    try:
        try:
            storage.write(file, b"doctor")
        finally:
            storage.delete([file])
            storage.delete_folder(file.rpartition("/")[0])  # a write that failed may leave a temporary file
    except StorageError as error:
        raise DeltaSnapError(f"{root} cannot be written: {error.reason}") from error


def _version_of(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError as error:
        raise DeltaSnapError(f"{package} is not installed") from error
