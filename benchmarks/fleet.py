"""Many tables: loading their definitions, an idle tick, and a refresh of one new commit each."""

from __future__ import annotations

import logging
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import dagster as dg
import s3fs
import yaml

from benchmarks.bench import Bench
from benchmarks.logs.small_table import write_table
from benchmarks.measure import Aim, Finding, Samples
from benchmarks.processes import HOST, free_port, is_listening
from deltasnap_assets.command.local.local_instance import DAGSTER_YAML
from deltasnap_assets.definitions import build_definitions
from deltasnap_assets.runs.refresh import refresh_table
from deltasnap_assets.settings.config import Settings
from deltasnap_assets.settings.loading import CONFIG_VARIABLE
from deltasnap_assets.settings.table_settings import TableSettings
from deltasnap_core.support import LOG_FOLDER, commit_file

_DEFINED = {1_000: 3, 3_000: 8}
"""The maximum CPU seconds until definitions are loaded, by the number of tables."""
_FOLLOWED = 300
_REFRESHED = 30
LAST = 5
"""The last version of the small tables."""
LOADS = """\
import time
from dagster._core.remote_representation.external_data import RepositorySnap
from dagster._serdes import serialize_value
from deltasnap_assets import definitions
start = time.process_time()
repository = definitions.defs.get_repository_def()
loaded = time.process_time()
serialize_value(RepositorySnap.from_def(repository, defer_snapshots=True))
print(loaded - start, time.process_time() - loaded)
"""


def run(bench: Bench) -> list[Finding]:
    """Measure definitions, an idle tick on S3 (moto), and a refresh on local disk in one warm session."""
    logging.getLogger("dagster").setLevel(logging.CRITICAL)
    folder = bench.scratch("fleet")
    write_table(folder / "made")
    defined = [finding for count in _DEFINED for finding in _definitions(bench, folder, count)]
    return [*defined, _idle_tick(bench, folder), _refresh(bench, folder)]


def _definitions(bench: Bench, folder: Path, count: int) -> list[Finding]:
    """Load the definitions in separate processes, as code locations do, and answer the first request of the UI."""
    config = folder / "deltasnap.yaml"
    tables = [{"name": f"t{number}", "path": f"/tables/t{number}"} for number in range(count)]
    config.write_text(yaml.safe_dump({"storage": "/store", "tables": tables}))
    loads, pages = [], []
    for number in range(bench.repeat):
        bench.report(f"definitions of {count:,} tables, round {number}")
        environment = os.environ | {CONFIG_VARIABLE: str(config)}
        command = [sys.executable, "-W", "ignore", "-c", LOADS]
        completed = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
        load, page = map(float, completed.stdout.split())
        loads.append(load)
        pages.append(page)
    return [
        Finding(
            question=f"Loading the definitions of {count:,} tables in a code location, CPU",
            ours=Samples(tuple(loads)),
            aim=Aim(at_most=_DEFINED[count], is_ratio=False),
        ),
        Finding(
            question=f"Describing {count:,} tables to the UI and the daemon, before the first page, CPU",
            ours=Samples(tuple(pages)),
        ),
    ]


def _idle_tick(bench: Bench, folder: Path) -> Finding:
    seconds, requests = idle_ticks(bench, folder, _FOLLOWED)
    return Finding(
        question=f"A tick over {_FOLLOWED} tables on S3 without a new commit",
        ours=seconds,
        aim=Aim(at_most=3, is_ratio=False),
        note=f"{requests} requests; moto answers on the same two cores",
    )


def idle_ticks(bench: Bench, folder: Path, count: int) -> tuple[Samples, int]:
    """Return the time of ticks without a new commit over that many tables on S3, and the requests of one.

    folder: has a table in `made`.
    """
    with _s3() as options:
        storage, requests = s3fs.S3FileSystem(**options), 0
        seconds: list[float] = []
        bench.report(f"{count} tables on S3")
        for number in range(count):
            storage.mkdir(f"fleet-{number}")  # moto reads all keys of a bucket for each listing
            for file in sorted((folder / "made" / LOG_FOLDER).iterdir()):
                storage.put_file(str(file), f"fleet-{number}/table/{LOG_FOLDER}/{file.name}")
        tables = tuple(
            TableSettings(name=f"t{number}", path=f"s3://fleet-{number}/table", storage_options=options)
            for number in range(count)
        )
        definitions = build_definitions(Settings(storage=str(folder / f"followed-{count}"), tables=tables))
        (sensor,) = (each for each in definitions.get_repository_def().sensor_defs if "new_commits" in each.name)
        with open_instance(folder / f"ticks-{count}") as instance, _counted() as requests_made:
            cursor, is_idle = None, False
            while len(seconds) < bench.repeat:
                bench.report(f"{'idle' if is_idle else 'first'} tick over {count} tables")
                requests_made.clear()
                start = time.perf_counter()
                result = sensor(dg.build_sensor_context(instance=instance, cursor=cursor))
                assert isinstance(result, dg.SensorResult)
                cursor = result.cursor
                if is_idle:
                    seconds.append(time.perf_counter() - start)
                    requests = len(requests_made)
                is_idle = is_idle or not result.run_requests
    return Samples(tuple(seconds)), requests


def _refresh(bench: Bench, folder: Path) -> Finding:
    tables = []
    for number in range(_REFRESHED):
        shutil.copytree(folder / "made", folder / f"t{number}")
        tables.append(TableSettings(name=f"t{number}", path=str(folder / f"t{number}"), versions="latest"))
    settings = Settings(storage=str(folder / "refreshed"), spark=bench.spark_settings, tables=tuple(tables))
    assert bench.spark is not None  # start it before the first measurement
    definitions, seconds = build_definitions(settings), []
    with open_instance(folder / "runs") as instance:
        for number in range(bench.repeat + 1):
            start = time.perf_counter()
            for table in tables:
                bench.report(f"refresh {number} of {table.name}")
                refresh_table(definitions, settings, table, instance, log_level="CRITICAL")
            if number:
                seconds.append((time.perf_counter() - start) / _REFRESHED)
            for table in tables:
                commit_again(Path(table.path), LAST + number + 1)
    return Finding(
        question="Refresh of small tables with one new commit each, in one process, per table",
        ours=Samples(tuple(seconds)),
        aim=Aim(at_most=0.35, is_ratio=False),
        note=f"{_REFRESHED} tables, one warm session",
    )


def commit_again(table: Path, version: int) -> None:
    """Write a version of a small table that adds files as its last one did."""
    log = table / LOG_FOLDER
    text = (log / commit_file(LAST)).read_text().replace(f"part-{LAST}-", f"part-{version}-")
    (log / commit_file(version)).write_text(text)


@contextmanager
def open_instance(home: Path) -> Iterator[dg.DagsterInstance]:
    """Yield a local instance in a new folder."""
    home.mkdir()
    (home / "dagster.yaml").write_text(DAGSTER_YAML)
    with dg.DagsterInstance.from_config(str(home)) as instance:
        yield instance


@contextmanager
def _s3() -> Iterator[dict[str, Any]]:
    port = free_port()
    server = subprocess.Popen(
        [sys.executable, "-m", "moto.server", "-p", str(port)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        while not is_listening(port):
            time.sleep(0.1)
        yield {"key": "key", "secret": "secret", "endpoint_url": f"http://{HOST}:{port}"}
    finally:
        server.kill()
        server.wait()


@contextmanager
def _counted() -> Iterator[list[str]]:
    """Yield a list that collects the S3 requests made in the meantime, at the single entry point of s3fs."""
    requests_made: list[str] = []
    call, call_later = s3fs.S3FileSystem.call_s3, s3fs.S3FileSystem._call_s3

    def counted(self: s3fs.S3FileSystem, method: str, *args: Any, **kwargs: Any) -> Any:
        requests_made.append(method)
        return call(self, method, *args, **kwargs)

    async def counted_later(self: s3fs.S3FileSystem, method: str, *args: Any, **kwargs: Any) -> Any:
        requests_made.append(method)
        return await call_later(self, method, *args, **kwargs)

    s3fs.S3FileSystem.call_s3, s3fs.S3FileSystem._call_s3 = counted, counted_later
    try:
        yield requests_made
    finally:
        s3fs.S3FileSystem.call_s3, s3fs.S3FileSystem._call_s3 = call, call_later
