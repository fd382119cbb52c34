"""The code location: `deltasnap_assets.definitions:defs`.

`defs` is built on first access, from the configuration file in use at that time. Importing this module reads nothing.
Building `defs` reads that file and lists the folders in `discover`. It reads no log and does not start Spark.
"""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import dagster as dg

    from deltasnap_assets.all_definitions import build_definitions

    defs: dg.Definitions

__all__ = ["build_definitions", "defs"]


UI_VARIABLE = "DELTASNAP_UI"
"""The environment variable of processes that `deltasnap ui` starts. In other processes, garbage is not our matter."""

_OBJECTS_PER_COLLECTION = 50_000
"""How many new objects start a garbage collection, in place of 700.

For the first page, Dagster makes snapshots of all jobs: millions of objects that stay. For 1,000 tables, the page takes
13.2 CPU s with 700 and 11.0 with 50,000.
"""


@cache
def _configured() -> dg.Definitions:
    is_ours = UI_VARIABLE in os.environ
    with _nothing_collected() if is_ours else nullcontext():
        defs: dg.Definitions = import_module("deltasnap_assets.all_definitions").configured_definitions()
        defs.get_repository_def()  # Dagster requests it next and gets the same object
    if is_ours:
        gc.set_threshold(max(gc.get_threshold()[0], _OBJECTS_PER_COLLECTION), *gc.get_threshold()[1:])
    return defs


@contextmanager
def _nothing_collected() -> Iterator[None]:
    """Disable garbage collection while loading modules and building definitions.

    Millions of objects are made, and live as long as the process. Searching them for garbage takes a fifth of the time.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
        gc.freeze()
    finally:
        if was_enabled:
            gc.enable()


def __getattr__(name: str) -> Any:
    if name == "defs":
        return _configured()
    if name == "build_definitions":
        return import_module("deltasnap_assets.all_definitions").build_definitions
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})  # Dagster searches the members of the module for definitions
