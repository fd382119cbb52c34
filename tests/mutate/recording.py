"""A plugin of pytest that records which test runs which line, and how long each test takes.

Lines that run during collection belong to no test: the modules of the code are imported then.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from pathlib import Path

import coverage
import pytest

from tests.mutate.mutants import PACKAGES

_FOLDER = Path(os.environ["DELTASNAP_COVERAGE"])
_seconds: dict[str, float] = {}
_coverage = coverage.Coverage(
    data_file=str(_FOLDER / "lines"),
    data_suffix=True,
    config_file=False,
    include=[str(Path.cwd() / package / "*") for package in PACKAGES],
)
_coverage.start()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Attribute the lines that run now to a test."""
    _coverage.switch_context(item.nodeid)
    start = time.perf_counter()
    result = yield
    _seconds[item.nodeid] = time.perf_counter() - start
    _coverage.switch_context("")
    return result


def pytest_unconfigure() -> None:
    """Write the records of this process."""
    _coverage.stop()
    _coverage.save()
    (_FOLDER / f"seconds-{os.getpid()}.json").write_text(json.dumps(_seconds), encoding="utf-8")
