"""Starts runs of the local instance in a standby process that has already loaded all modules: see `standby`.

If there is no standby process (for the first run, or for two at once), runs start in a new process as usual in Dagster.
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

from deltasnap_assets.processes import has_ended, pid_of, process_name

MODULE = "deltasnap_assets.definitions"
_HANDED_OVER_TAG = ".dagster/deltasnap/handed_over"  # Dagster hides tags with this prefix in its pages


class StandbyRunLauncher(dg.DefaultRunLauncher):
    """Passes a run to the standby process, and starts the next standby process when that run has ended."""

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
        """Terminate a run. Any process of this machine may call this."""
        run = self._instance.get_run_by_id(run_id)
        process = "" if run is None else run.tags.get(_HANDED_OVER_TAG, "")
        if run is None or run.is_finished or has_ended(process) is not False:
            return bool(super().terminate(run_id))  # type: ignore[no-untyped-call]
        self._instance.report_run_canceling(run)
        os.kill(pid_of(process), signal.SIGINT)
        return True

    def stand_by(self, after: subprocess.Popen[str] | None = None) -> None:
        """Start a standby process unless there is one. Waits first until `after` has ended, to leave it the CPU."""
        if after is not None:
            after.wait()
        with self._lock:
            if self._standby is None:
                # It ends when its input closes, that is, when this process ends. A Ctrl-C does not reach it: that would
                # cancel its run.
                self._standby = subprocess.Popen(
                    [sys.executable, "-m", "deltasnap_assets.command.local.standby"],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.DEVNULL,
                    text=True,
                    start_new_session=True,
                )

    def dispose(self) -> None:
        """Let the standby process end."""
        with self._lock:
            if self._standby is not None and self._standby.stdin is not None:
                self._standby.stdin.close()
                self._standby.wait()
                self._standby = None

    def _hand_over(self, process: subprocess.Popen[str], run_id: str, arguments: str) -> bool:
        name = process_name(process.pid)
        try:
            self._instance.add_run_tags(run_id, {_HANDED_OVER_TAG: name})
            assert process.stdin is not None
            process.stdin.write(f"{arguments}\n")
            process.stdin.flush()
        except OSError:  # the process is gone
            return False
        return True
