"""A plugin of pytest that records which test runs which line, and how long each test takes.

Lines that run during collection belong to no test: the modules of the code are imported then. Lines that run in a
fixture of a module or class belong to all tests that request it.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import coverage
import pytest

from tests.mutate.mutants import PACKAGES

_FOLDER = Path(os.environ["DELTASNAP_COVERAGE"])
_SHARED = ("class", "module", "package")
_seconds: dict[str, float] = {}
_users: dict[str, list[str]] = {}
"""The tests that request a shared fixture, by the fixture's name in the record."""
_names = [""]
"""What runs now, in the record: a test, and the fixtures that it sets up."""
_coverage = coverage.Coverage(
    data_file=str(_FOLDER / "lines"),
    data_suffix=True,
    config_file=False,
    include=[str(Path.cwd() / package / "*") for package in PACKAGES],
)
_coverage.start()


@contextmanager
def _recorded_as(name: str) -> Iterator[None]:
    _names.append(name)
    _coverage.switch_context(name)
    try:
        yield
    finally:
        _names.pop()
        _coverage.switch_context(_names[-1])


def _name(fixture: pytest.FixtureDef[Any]) -> str:
    return f"fixture {fixture.baseid}::{fixture.argname}"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Function) -> Generator[None, object, object]:
    """Attribute the lines that run now to a test."""
    for fixtures in item._fixtureinfo.name2fixturedefs.values():
        for fixture in fixtures:
            if fixture.scope in _SHARED:
                _users.setdefault(_name(fixture), []).append(item.nodeid)
    start = time.perf_counter()
    with _recorded_as(item.nodeid):
        result = yield
    _seconds[item.nodeid] = time.perf_counter() - start
    return result


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup(fixturedef: pytest.FixtureDef[Any]) -> Generator[None, object, object]:
    """Attribute the lines that run now to a fixture that several tests share."""
    if fixturedef.scope not in _SHARED:
        return (yield)
    with _recorded_as(_name(fixturedef)):
        return (yield)


def pytest_unconfigure() -> None:
    """Write the records of this process."""
    _coverage.stop()
    _coverage.save()
    (_FOLDER / f"seconds-{os.getpid()}.json").write_text(json.dumps(_seconds), encoding="utf-8")
    (_FOLDER / f"fixtures-{os.getpid()}.json").write_text(json.dumps(_users), encoding="utf-8")
