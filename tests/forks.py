"""Runs Python scripts, each in its own process, without the time to start Python and to import.

One process imports the common modules and waits. Each script runs in a fork of it, with its own working directory,
environment, arguments, stdout, stderr and exit code, as in a new process.
"""

from __future__ import annotations

import atexit
import gc
import importlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import traceback
from collections.abc import Mapping
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent


class Forks:
    """Runs scripts in forks of a process that has imported `modules`. Modules that are not installed are skipped."""

    def __init__(self, *modules: str) -> None:
        self._modules = modules

    @cached_property
    def _parent(self) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "tests.forks", *self._modules]
        env = {**os.environ, "PYTHONPATH": str(ROOT)}
        parent = subprocess.Popen(
            command, cwd=ROOT, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
        )
        atexit.register(parent.communicate)  # it ends when its input closes
        return parent

    def run(
        self, script: str, *arguments: str, cwd: Path = ROOT, env: Mapping[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run a script with an empty stdin."""
        with tempfile.TemporaryDirectory() as folder:
            out, err = Path(folder, "out"), Path(folder, "err")
            task = {
                "script": script,
                "arguments": arguments,
                "cwd": str(cwd),
                "env": dict(os.environ if env is None else env),
                "out": str(out),
                "err": str(err),
            }
            assert self._parent.stdin is not None
            assert self._parent.stdout is not None
            self._parent.stdin.write(json.dumps(task) + "\n")
            code = int(self._parent.stdout.readline())
            texts = [file.read_text(encoding="utf-8") for file in (out, err)]
        return subprocess.CompletedProcess([script, *arguments], code, *texts)


_MAX_SECONDS = 300

LOADED_BY: dict[str, str] = {}
"""In the process that forks: the imported module that first loaded a package, by the name of the package."""


def main() -> None:
    """Import the given modules; then fork for each line of stdin, and report the exit code of the fork."""
    gc.disable()  # while modules are imported
    for name in sys.argv[1:]:
        with suppress(ImportError):
            importlib.import_module(name)
        LOADED_BY.update(dict.fromkeys(sys.modules.keys() - LOADED_BY.keys(), name))
    gc.freeze()  # a garbage collection in a fork would copy the memory of all modules
    gc.enable()
    for line in sys.stdin:
        child = os.fork()
        if not child:
            signal.alarm(_MAX_SECONDS)  # it ends a command that waits for ever
            code = _run(json.loads(line))
            threading._shutdown()  # type: ignore[attr-defined]  # as Python itself: it waits for threads
            atexit._run_exitfuncs()
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)  # unloading all modules would take most of the time
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)


def _run(task: dict[str, Any]) -> int:
    for number, path in enumerate((os.devnull, task["out"], task["err"])):
        file = os.open(path, os.O_RDWR | os.O_CREAT)
        os.dup2(file, number)
        os.close(file)
    os.chdir(task["cwd"])
    os.environ.clear()
    os.environ.update(task["env"])
    sys.argv = ["script", *task["arguments"]]
    try:
        exec(compile(task["script"], "script", "exec"), {"__name__": "__main__"})
    except SystemExit as end:
        if end.code is None or isinstance(end.code, int):
            return end.code or 0
        print(end.code, file=sys.stderr)
        return 1
    except BaseException:  # noqa: BLE001  as Python itself
        traceback.print_exc()
        return 1
    return 0


if __name__ == "__main__":
    main()
