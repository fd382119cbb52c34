"""A standby process for one run: `python -m deltasnap_assets.command.local.standby`.

Loading Dagster, PySpark and the definitions takes longer than many runs. This process loads them before there is a run.
The run arrives as one line on stdin, the argument of `dagster api execute_run`. The process ends after the run, or when
stdin closes.
"""

from __future__ import annotations

import importlib
import os
import signal
import sys
import threading
from importlib.util import find_spec

import dagster as dg
from dagster._cli.api import execute_run_command  # no public name

from deltasnap_assets import definitions
from deltasnap_assets.settings.config import Settings
from deltasnap_assets.settings.loading import load_settings
from deltasnap_core import DeltaSnapError

_OF_A_SESSION = {"grpc": "pyspark.sql.connect.session", "py4j": "pyspark.sql.classic.dataframe"}


def main() -> None:
    """Load the modules and definitions, wait for a run, and execute it."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    settings = _settings()
    if settings is not None:
        definitions.defs.get_repository_def()
    with dg.DagsterInstance.get() as instance:  # also loads the modules of the storage
        instance.get_runs_count()
    for needed, module in _OF_A_SESSION.items():
        if find_spec(needed):
            importlib.import_module(module)
    if not (arguments := sys.stdin.readline().strip()):
        return
    if settings is None or _settings() != settings:  # tables were added or changed: load everything again
        os.execv(sys.executable, [sys.executable, "-m", "dagster", "api", "execute_run", arguments])
    threading.Thread(target=_end_with_stdin, daemon=True).start()
    execute_run_command.main([arguments], standalone_mode=False)


def _settings() -> Settings | None:
    """Return the configuration with discovered tables; None: it is invalid, and the run will report why."""
    try:
        return load_settings()
    except DeltaSnapError:
        return None


def _end_with_stdin() -> None:
    """End immediately when the daemon that passed the run is gone. The run counts as lost, and is retried."""
    sys.stdin.read()
    os._exit(1)


if __name__ == "__main__":
    main()
