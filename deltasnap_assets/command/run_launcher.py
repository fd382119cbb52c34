"""Runs of the local instance start in a process that stands by with all loaded that a run needs: see `standby`.

Where none does, as for the first run, or two at once, they start as Dagster starts them, in a new process.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading

import dagster as dg
from dagster._core.launcher.base import LaunchRunContext  # no public name
from dagster._grpc.types import ExecuteRunArgs  # no public name
from dagster._serdes import ConfigurableClassData, serialize_value  # no public name

from deltasnap_assets.processes import has_ended, name_of, pid_of
from deltasnap_assets.runs.run_process import HIDDEN_TAG_PREFIX, PROCESS_TAG

MODULE = "deltasnap_assets.definitions"
_HANDED_OVER_TAG = f"{HIDDEN_TAG_PREFIX}handed_over"


class StandbyRunLauncher(dg.DefaultRunLauncher):
    """Hands a run to the process that stands by, and has the next one stand by once that run has ended."""

    def __init__(self, inst_data: ConfigurableClassData | None = None) -> None:
        super().__init__(inst_data)
        self._lock = threading.Lock()
        self._standby: subprocess.Popen[str] | None = None

    def launch_run(self, context: LaunchRunContext) -> None:
        """Start a run."""
        run, origin = context.dagster_run, context.job_code_origin
        is_ours = origin is not None and getattr(origin.repository_origin.code_pointer, "module", None) == MODULE
        if not is_ours or origin is None:
            super().launch_run(context)
            return
        with self._lock:
            process, self._standby = self._standby, None
        arguments = ExecuteRunArgs(job_origin=origin, run_id=run.run_id, instance_ref=self._instance.get_ref())
        if process is None or not self._hand_over(process, run.run_id, serialize_value(arguments)):
            super().launch_run(context)
            process = None
        threading.Thread(target=self.stand_by, args=(process,), daemon=True).start()

    def terminate(self, run_id: str) -> bool:
        """End a run; any process of this machine may ask for it."""
        run = self._instance.get_run_by_id(run_id)
        process = "" if run is None else run.tags.get(_HANDED_OVER_TAG, "")
        if run is None or run.is_finished or has_ended(process) is not False:
            return bool(super().terminate(run_id))  # type: ignore[no-untyped-call]
        self._instance.report_run_canceling(run)
        os.kill(pid_of(process), signal.SIGINT)
        return True

    def stand_by(self, after: subprocess.Popen[str] | None = None) -> None:
        """Have a process stand by unless one does, once another has ended: loading takes what that one needs."""
        if after is not None:
            after.wait()
        with self._lock:
            if self._standby is None:
                # It ends as its input does, which is as this process ends: not by a Ctrl-C, which would cancel its run.
                self._standby = subprocess.Popen(
                    [sys.executable, "-m", "deltasnap_assets.command.standby"],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.DEVNULL,
                    text=True,
                    start_new_session=True,
                )

    def dispose(self) -> None:
        """Let the process that stands by end."""
        with self._lock:
            if self._standby is not None and self._standby.stdin is not None:
                self._standby.stdin.close()
                self._standby.wait()
                self._standby = None

    def _hand_over(self, process: subprocess.Popen[str], run_id: str, arguments: str) -> bool:
        name = name_of(process.pid)
        try:
            # Before it runs: whoever kills it, the run is known for lost.
            self._instance.add_run_tags(run_id, {PROCESS_TAG: name, _HANDED_OVER_TAG: name})
            assert process.stdin is not None
            process.stdin.write(f"{arguments}\n")
            process.stdin.flush()
        except OSError:  # it is gone
            return False
        return True
