"""A process that stands by for one run: `python -m deltasnap_assets.command.standby`.

Loading Dagster, PySpark and the definitions takes longer than many a run. Here that is done before there is a run. It
comes as one line on stdin, what `dagster api execute_run` takes; the process ends with it, or as stdin does.
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
from deltasnap_assets.settings.config import Settings, load_settings
from deltasnap_core import DeltaSnapError

_OF_A_SESSION = {"grpc": "pyspark.sql.connect.session", "py4j": "pyspark.sql.classic.dataframe"}


def main() -> None:
    """Load what a run needs, wait for one, and execute it."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    settings = _settings()
    if settings is not None:
        definitions.defs.get_repository_def()
    with dg.DagsterInstance.get() as instance:  # what opens its storage is loaded too
        instance.get_runs_count()
    for needed, module in _OF_A_SESSION.items():
        if find_spec(needed):
            importlib.import_module(module)
    if not (arguments := sys.stdin.readline().strip()):
        return
    if settings is None or _settings() != settings:  # tables were added, or changed: all is loaded anew
        os.execv(sys.executable, [sys.executable, "-m", "dagster", "api", "execute_run", arguments])
    threading.Thread(target=_end_with_stdin, daemon=True).start()
    execute_run_command.main([arguments], standalone_mode=False)


def _settings() -> Settings | None:
    """The configuration, with the tables that it discovers; None: it is wrong, as the run will tell."""
    try:
        return load_settings()
    except DeltaSnapError:
        return None


def _end_with_stdin() -> None:
    """End at once where the daemon that handed the run over is gone: it counts as lost, and is made up for."""
    sys.stdin.read()
    os._exit(1)


if __name__ == "__main__":
    main()
