"""Selects the tests that may detect a mutant: those that run its lines, then those of its module."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import accumulate
from pathlib import Path
from typing import Any

import coverage

from tests.forks import ROOT
from tests.mutate.mutants import PACKAGES, Mutant
from tests.mutate.worker import copy_project

_FOLDERS = {"deltasnap_core": "tests/core", "deltasnap_assets": "tests/assets"}
"""The packages, and where their tests are."""
_DOCUMENTS = "tests/docs"
_OF_DECLARATIONS = (_DOCUMENTS, "tests/assets/settings")
"""Tests of what the code declares on import: keys, defaults, limits, commands, metadata."""
_FIRST_SECONDS = 10
"""The tests that run first are the fastest ones that take so long in total."""
_RECORDS = ("seconds", "fixtures")
"""The names of JSON files beside the lines: the time of each test, and the tests that request each shared fixture."""
_SLOW_SECONDS = 90
"""How long the slow tests of a mutant may take in total."""


class LineTests:
    """Which test runs which line, and how long each test takes."""

    def __init__(self, data: coverage.CoverageData, seconds: dict[str, float], fixtures: dict[str, list[str]]) -> None:
        """Create an instance from a record. fixtures: the tests that request a shared fixture, by its name there."""
        self._data = data
        self._fixtures = fixtures
        # Without the tests of files that were deleted after the record.
        self.seconds = {test: each for test, each in seconds.items() if (ROOT / test.partition("::")[0]).is_file()}
        """How long each test takes."""
        self._files = {Path(*_below_package(file)): file for file in data.measured_files()}

    @classmethod
    def recorded(cls, folder: Path, options: Sequence[str]) -> LineTests:
        """Return what a folder has recorded. If it is empty, run the tests that options select, and record them."""
        if not (folder / "lines").exists():
            _record(folder.resolve(), options)
        data = coverage.CoverageData(str(folder / "lines"))
        data.read()
        return cls(data, *(json.loads((folder / f"{name}.json").read_text("utf-8")) for name in _RECORDS))

    def of(self, mutant: Mutant) -> Iterator[list[str]]:
        """Yield groups of tests, most likely to detect a mutant first. No test is in two groups.

        A line that runs on import belongs to all tests that run any line of the module. Tests of commands run in
        other processes, which record nothing: therefore the tests of the module are the last group, with those of what
        the code declares on import.
        """
        wanted = self._of_lines(mutant)
        fastest = sorted(wanted & self.seconds.keys(), key=self.seconds.__getitem__)
        total, count = 0.0, 0
        while count < len(fastest) and total < _FIRST_SECONDS:
            total += self.seconds[fastest[count]]
            count += 1
        yield fastest[:count]
        yield fastest[count:]
        near = set(_tests_near(mutant.module))
        files = {test: test.partition("::")[0] for test in self.seconds if test not in wanted}
        yield [test for test, file in files.items() if file in near or file.startswith(_OF_DECLARATIONS)]

    def slow_of(self, mutant: Mutant) -> list[str]:
        """Return the slow tests that may detect a mutant, as many as run in limited time.

        First those of its module that run its lines, then the others that do, then the others of its module.
        """
        wanted, near = self._of_lines(mutant), set(_tests_near(mutant.module))
        is_near = {test: test.partition("::")[0] in near for test in self.seconds}
        rank = {test: (test in wanted) * 2 + is_near[test] for test in self.seconds}
        found = sorted((test for test in rank if rank[test]), key=lambda test: (-rank[test], self.seconds[test]))
        ends = accumulate(self.seconds[test] for test in found)
        return [test for test, end in zip(found, ends, strict=True) if end <= _SLOW_SECONDS]

    def _of_lines(self, mutant: Mutant) -> set[str]:
        """Return the tests that run the lines of a mutant; of lines that run on import, those that run its module."""
        contexts = self._contexts(mutant.module)
        found = {test for line in mutant.lines for test in contexts.get(line, ())}
        return found if found and "" not in found else {test for tests in contexts.values() for test in tests}

    @cache  # noqa: B019 - one instance per run
    def _contexts(self, module: Path) -> dict[int, list[str]]:
        file = self._files.get(module)
        by_line = self._data.contexts_by_lineno(file) if file else {}
        return {
            line: [test for name in names for test in self._fixtures.get(name, (name,))]
            for line, names in by_line.items()
        }


def _below_package(file: str) -> tuple[str, ...]:
    parts = Path(file).parts
    return parts[next(at for at, part in enumerate(parts) if part in PACKAGES) :]


def _record(folder: Path, options: Sequence[str]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as copy:
        copy_project(Path(copy))
        spread = ["-n", "logical", "--dist", "loadfile", *_FOLDERS.values(), _DOCUMENTS]
        command = [sys.executable, "-m", "pytest", "-q", *options, "-p", "tests.mutate.recording", *spread]
        env = {**os.environ, "DELTASNAP_COVERAGE": str(folder), "PYTHONPATH": copy}
        if subprocess.run(command, cwd=copy, env=env, check=False).returncode:
            sys.exit("The tests fail without a change.")
    coverage.Coverage(data_file=str(folder / "lines"), config_file=False).combine([str(folder)])
    for name in _RECORDS:
        whole: dict[str, Any] = {}
        for file in folder.glob(f"{name}-*.json"):
            for key, value in json.loads(file.read_text("utf-8")).items():
                whole[key] = whole[key] + value if key in whole else value
        (folder / f"{name}.json").write_text(json.dumps(whole), "utf-8")


def _tests_near(module: Path) -> Sequence[str]:
    """Return the test files named after a module or after one that imports it, and those that import it.

    Of a command: all tests of commands. If there are none: those near the modules that import it, and so on.
    """
    side = Path(_FOLDERS[module.parts[0]])
    reached, level = {module}, {module}
    while level:
        importing = re.compile("|".join(_imported(each) for each in sorted(level)), re.MULTILINE)
        users = {path for path, text in _texts_below(*PACKAGES).items() if importing.search(text)}
        named = {f"test_{path.stem}" for path in level | users if path.stem != "__init__"}
        found = []
        for path, text in _texts_below(*_FOLDERS.values()).items():
            is_named = path.stem in named and path.is_relative_to(side)
            is_of_commands = module.is_relative_to("deltasnap_assets/command") and path.is_relative_to(side / "command")
            if path.name.startswith("test_") and (is_named or is_of_commands or importing.search(text)):
                found.append(str(path))
        if found:
            return found
        level = users - reached
        reached |= users
    return []


def _imported(module: Path) -> str:
    return rf"^ *(?:from|import) {re.escape('.'.join(module.with_suffix('').parts))}\b"


@cache
def _texts_below(*folders: str) -> dict[Path, str]:
    found = sorted(path for folder in folders for path in (ROOT / folder).rglob("*.py"))
    return {path.relative_to(ROOT): path.read_text(encoding="utf-8") for path in found}
