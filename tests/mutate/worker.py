"""Runs tests in a copy of the project, in which one module may be changed."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path

from tests.forks import ROOT, Forks
from tests.mutate.mutants import Mutant

_MAX_CPU_SECONDS = 300
_START_SECONDS = 120
_TIMES_AS_LONG = 5
"""Tests that take more than this many times as long as when they were recorded wait for ever."""
_MAX_BYTES = 6 << 30
# Third-party imports of the tests: loaded once, in the process from which each run is forked.
_OUTSIDE = (
    "dagster",
    "deltalake",
    "hypothesis",
    "pandas",
    "pyarrow.pandas_compat",
    "pyarrow.parquet",
    "pyspark.sql",
    "pytest",
    "rich.console",
    "s3fs",
    "sqlglot",
    "typer",
    "fsspec",
)
_RUN = """
import resource, signal, sys, tempfile
tempfile.tempdir = None  # the folder of this process, not that of the process from which it was forked
folder, cpu_seconds, seconds, memory, *arguments = sys.argv[1:]
for name in [name for name in sys.modules if name.startswith(("deltasnap", "tests", "benchmarks"))]:
    del sys.modules[name]
sys.path[:] = [folder, *(path for path in sys.path if path not in ("", {root!r}))]
sys.dont_write_bytecode = True
resource.setrlimit(resource.RLIMIT_AS, (int(memory), int(memory)))
resource.setrlimit(resource.RLIMIT_CPU, (int(cpu_seconds), int(cpu_seconds)))
signal.alarm(int(seconds))
import pytest
sys.exit(pytest.main(arguments))
"""
_OPTIONS = ("-p", "no:cacheprovider", "--hypothesis-seed=0")
QUICK = ("-m", "not spark and not slow and not thorough", *_OPTIONS)
"""Options of pytest for the quick tests."""
SLOW = ("-m", "(spark or slow) and not thorough", *_OPTIONS)
"""Options of pytest for the other standard tests."""


def copy_project(folder: Path) -> None:
    """Copy the tracked and new files into a folder."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    for name in subprocess.check_output(command, cwd=ROOT, text=True).split("\0"):
        if (source := ROOT / name).is_file():  # not if it is deleted, but not committed
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, folder / name)


class Worker:
    """A copy of the project, and the tests run in it."""

    def __init__(self, folder: Path, seconds: Mapping[str, float]) -> None:
        """Create a worker. seconds: how long each test takes."""
        self._folder = folder
        self._seconds = seconds
        self.stopped = 0
        """The number of mutants whose tests were stopped by a time limit: they count as killed."""

    @cached_property
    def _forks(self) -> Forks:
        copy_project(self._folder)
        return Forks(*_OUTSIDE)

    def detected_by(self, mutant: Mutant, groups: Iterable[list[str]], slow: list[str]) -> str:
        """Return `quick` if quick tests detect a mutant, `slow` if only slow tests do, otherwise an empty text."""
        forks = self._forks
        file = self._folder / mutant.module
        file.write_text(mutant.source, encoding="utf-8")
        try:
            if not all(self._passes(forks, group, QUICK) for group in groups if group):
                return "quick"
            return "slow" if slow and not self._passes(forks, slow, SLOW) else ""
        finally:
            shutil.copy2(ROOT / mutant.module, file)

    def _passes(self, forks: Forks, tests: list[str], options: Sequence[str]) -> bool:
        """Whether all selected tests pass in time and within their memory."""
        selected = self._folder / "selected-tests.json"
        selected.write_text(json.dumps(tests), encoding="utf-8")
        files = sorted({test.partition("::")[0] for test in tests})
        seconds = _START_SECONDS + int(_TIMES_AS_LONG * sum(self._seconds.get(test, 0) for test in tests))
        limits = [str(_MAX_CPU_SECONDS), str(seconds), str(_MAX_BYTES)]
        temporary = self._folder / "tmp"  # a run that a limit stops leaves files
        temporary.mkdir(exist_ok=True)
        env = {**os.environ, "DELTASNAP_SELECTED_TESTS": str(selected), "TMPDIR": str(temporary)}
        arguments = [str(self._folder), *limits, "-x", "-q", *options, "-p", "tests.mutate.selection", *files]
        run = forks.run(_RUN.format(root=str(ROOT)), *arguments, cwd=self._folder, env=env)
        shutil.rmtree(temporary, ignore_errors=True)
        self.stopped += run.returncode < 0
        return run.returncode in (0, 5)  # 5: none is selected
