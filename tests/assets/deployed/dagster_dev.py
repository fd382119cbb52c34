"""A deployment in a folder: `dagster dev` of a module, with a table that `deltalake` writes."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar
from urllib.request import Request, urlopen

import dagster as dg
import pyarrow as pa

from deltasnap_assets.runs.planning.partitions import version_partitions
from deltasnap_assets.settings.table_settings import ASSET_NAMES
from deltasnap_core import SnapshotStore

ROOT = Path(__file__).resolve().parents[3]
OWN_MODULE = "deltasnap_assets.definitions"
CONFIGURATION = "storage: store\ntables: [{name: events, path: events, poll_seconds: 5, refresh: null}]\n"
INSTANCE = "telemetry: {enabled: false}\nnux: {enabled: false}\n"
UNFINISHED = {"QUEUED", "NOT_STARTED", "STARTING", "STARTED", "CANCELING"}
_POLL_SECONDS = 0.2
_PATIENCE_SECONDS = 600.0  # of a busy machine
_LAUNCHED = "__typename ... on LaunchRunSuccess {run {runId}} ... on PythonError {message}"
_LAUNCH = f"mutation ($p: ExecutionParams!) {{launchPipelineExecution(executionParams: $p) {{{_LAUNCHED}}}}}"
_REEXECUTE = f"mutation ($p: ReexecutionParams!) {{launchPipelineReexecution(reexecutionParams: $p) {{{_LAUNCHED}}}}}"
_FILLED = "__typename ... on LaunchBackfillSuccess {backfillId} ... on PythonError {message}"
_BACKFILL = f"mutation ($p: LaunchBackfillParams!) {{launchPartitionBackfill(backfillParams: $p) {{{_FILLED}}}}}"
_REFILL = f"mutation ($p: ReexecutionParams!) {{reexecutePartitionBackfill(reexecutionParams: $p) {{{_FILLED}}}}}"

T = TypeVar("T")


class DagsterDev:
    """A folder with a table `events`, its store, a Dagster instance, and `dagster dev` while it runs.

    The instance is read directly, and runs are launched by GraphQL, as the pages of Dagster do.
    """

    def __init__(self, folder: Path, *, project: str | None = None, instance_yaml: str = INSTANCE) -> None:
        """project: the code of the module to serve; None: that of deltasnap."""
        self.folder, self.table = folder, folder / "events"
        self._home = folder / "home"
        self._home.mkdir(parents=True)
        (self._home / "dagster.yaml").write_text(instance_yaml, encoding="utf-8")
        (folder / "deltasnap.yaml").write_text(CONFIGURATION, encoding="utf-8")
        self._module = OWN_MODULE if project is None else "project"
        if project is not None:
            (folder / "project.py").write_text(project, encoding="utf-8")
        self.instance = dg.DagsterInstance.from_config(str(self._home))
        self._port = 0
        self._process: subprocess.Popen[bytes] | None = None

    def commit(self, number: int = 1) -> None:
        """Append rows to the table, so many times."""
        from deltalake import write_deltalake

        for _ in range(number):
            write_deltalake(self.table, pa.table({"id": [1, 2, 3], "amount": [1.5, 2.5, 3.5]}), mode="append")

    @contextmanager
    def running(self) -> Iterator[None]:
        """Run `dagster dev`. At the end, all its processes are killed."""
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self._port = free.getsockname()[1]
        command = [sys.executable, "-m", "dagster", "dev", "-m", self._module, "-h", "127.0.0.1", "-p", str(self._port)]
        environment = {name: value for name, value in os.environ.items() if name != "DELTASNAP_CONFIG"}
        environment |= {"DAGSTER_HOME": str(self._home), "PYTHONPATH": f"{self.folder}:{ROOT}"}
        with (self.folder / "printed").open("ab") as sink:
            self._process = process = subprocess.Popen(
                command, cwd=self.folder, env=environment, stdout=sink, stderr=sink, start_new_session=True
            )
        try:
            self.wait_for(self._is_serving)
            yield
        finally:
            process.send_signal(signal.SIGINT)
            with suppress(subprocess.TimeoutExpired):
                process.wait(30)
            self.kill()

    def kill(self) -> None:
        """Kill all processes of `dagster dev` and of its runs, as a failure of the machine does."""
        assert self._process is not None
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def _is_serving(self) -> bool:
        try:
            with urlopen(f"http://127.0.0.1:{self._port}/server_info", timeout=2):
                return True
        except OSError:
            return False

    def wait_for(self, found: Callable[[], T | None]) -> T:
        """Return the first result that is true."""
        end = time.monotonic() + _PATIENCE_SECONDS
        while not (result := found()):
            assert time.monotonic() < end, (self.folder / "printed").read_text(encoding="utf-8")[-5_000:]
            time.sleep(_POLL_SECONDS)
        return result

    def _changed(self, query: str, params: Mapping[str, Any], key: str) -> str:
        body = json.dumps({"query": query, "variables": {"p": params}}).encode()
        request = Request(f"http://127.0.0.1:{self._port}/graphql", body, {"content-type": "application/json"})
        with urlopen(request, timeout=120) as response:
            (answer,) = json.load(response)["data"].values()
        assert "message" not in answer, answer
        return str((answer.get("run") or answer)[key])

    def launch(self, *assets: str, tags: Mapping[str, str] | None = None) -> str:
        """Materialize assets as their pages do. Return the id of the run."""
        selector = {
            "repositoryName": "__repository__",
            "repositoryLocationName": self._module,
            "pipelineName": "__ASSET_JOB",
            "assetSelection": [{"path": asset.split("/")} for asset in assets],
        }
        tagged = [{"key": key, "value": value} for key, value in (tags or {}).items()]
        params = {"selector": selector, "mode": "default", "executionMetadata": {"tags": tagged}}
        return self._changed(_LAUNCH, params, "runId")

    def reexecute(self, run_id: str, strategy: str) -> str:
        """Execute a run again as its page does. strategy: ALL_STEPS or FROM_FAILURE. Return the id of the new run."""
        return self._changed(_REEXECUTE, {"parentRunId": run_id, "strategy": strategy}, "runId")

    def backfill(self, versions: Sequence[int]) -> str:
        """Materialize versions of all assets of the table as a backfill. Return its id."""
        assets = [{"path": ["events", name]} for name in ASSET_NAMES]
        params = {"assetSelection": assets, "partitionNames": [str(version) for version in versions]}
        return self._changed(_BACKFILL, params, "backfillId")

    def repeat_backfill(self, backfill_id: str) -> str:
        """Execute a backfill again. Return the id of the new one."""
        return self._changed(_REFILL, {"parentRunId": backfill_id, "strategy": "ALL_STEPS"}, "backfillId")

    def runs_of_backfill(self, backfill_id: str) -> Sequence[dg.DagsterRun]:
        """Wait for the end of a backfill and return its runs."""

        def ended() -> bool:
            backfill = self.instance.get_backfill(backfill_id)
            return backfill is not None and backfill.status.value.startswith(("COMPLETED", "FAILED", "CANCELED"))

        self.wait_for(ended)
        return self.instance.get_runs(dg.RunsFilter(tags={"dagster/backfill": backfill_id}))

    def run(self, run_id: str) -> dg.DagsterRun:
        """Return a run as it is now."""
        run = self.instance.get_run_by_id(run_id)
        assert run is not None
        return run

    def ended(self, run_id: str) -> dg.DagsterRun:
        """Wait for the end of a run and return it."""
        return self.wait_for(lambda: run if (run := self.run(run_id)).is_finished else None)

    def process_of(self, run_id: str) -> int:
        """Wait until Dagster has started the process of a run, and return its id."""

        def found() -> int | None:
            texts = (entry.message for entry in self.instance.all_logs(run_id))
            return next((int(match[1]) for text in texts if (match := re.search(r"run \(pid: (\d+)\)", text))), None)

        return self.wait_for(found)

    def requested(self) -> list[dg.DagsterRun]:
        """Return the runs of the table's job, the first one first."""
        return [*reversed(self.instance.get_runs(dg.RunsFilter(job_name="events_snapshots")))]

    def first_refresh(self) -> dg.DagsterRun:
        """Wait for the end of the first run that the sensor requests. It must succeed."""
        run = self.wait_for(lambda: next(iter(self.requested()), None))
        assert self.ended(run.run_id).is_success, self.texts(run.run_id)
        return run

    def texts(self, run_id: str) -> list[str]:
        """Return the messages of a run."""
        return [entry.message for entry in self.instance.all_logs(run_id)]

    def statuses(self, versions: int) -> dict[str, set[str]]:
        """Return what Dagster shows for the first versions of each asset, without repetitions."""
        keys = [str(version) for version in range(versions)]
        found = {}
        for name in ASSET_NAMES:
            by_key = self.instance.get_status_by_partition(
                dg.AssetKey(["events", name]), keys, version_partitions("events")
            )
            found[name] = {str(None if (status := (by_key or {}).get(key)) is None else status.value) for key in keys}
        return found

    def stored(self) -> dict[int, tuple[int, int]]:
        """Return the files and bytes of each stored version."""
        store = SnapshotStore.open(None, str(self.folder / "store"))
        states = {version: store.computed_state("events", version) for version in store.versions("events")}
        return {version: (state.num_of_files, state.size_in_bytes) for version, state in states.items()}

    def ticks(self) -> int:
        """Return how often the sensor of the table has been evaluated."""
        (state,) = (each for each in self.instance.all_instigator_state() if each.name == "events_new_commits")
        return len(self.instance.get_ticks(state.instigator_origin_id, state.selector_id))
