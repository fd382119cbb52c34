"""Builders for the tests of import boundaries."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


CORE = ROOT / "deltasnap_core"


ASSETS = ROOT / "deltasnap_assets"


# These folders may load PySpark; their subfolders may not, unless listed. All other folders of the core are pure.
SPARK_ROOMS = (
    "deltasnap_core.replay.spark",
    "deltasnap_core.replay.spark.reading",
    "deltasnap_core.replay.spark.session",
    "deltasnap_core.scan",
    "deltasnap_core.scan.changes",
    "deltasnap_core.scan.search",
    "deltasnap_core.scan.tables",
    "deltasnap_core.snapshot",
    "deltasnap_core.snapshot.checkpoints",
    "deltasnap_core.store",
    "deltasnap_core.store.rows",
    "deltasnap_core.store.writing",
)


# The pure folders and modules of the app.
PURE_ROOMS_OF_THE_APP = (
    "deltasnap_assets.checks",
    "deltasnap_assets.demo",
    "deltasnap_assets.settings",
    "deltasnap_assets.spark",
)


PURE_ENTRIES_OF_THE_APP = ("deltasnap_assets.command.cli", "deltasnap_assets.quantities", "deltasnap_assets.texts")


CODE_LOCATION = "deltasnap_assets.all_definitions"


def module_name(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def is_within(module: str, packages: tuple[str, ...]) -> bool:
    return any(module == package or module.startswith(package + ".") for package in packages)


ALL_FILES = sorted(CORE.rglob("*.py")) + sorted(ASSETS.rglob("*.py"))


MODULES = {module_name(path): path for path in ALL_FILES}


def room_of(module: str) -> str:
    """The folder of a module, as a package."""
    return module if MODULES[module].name == "__init__.py" else module.rpartition(".")[0]


def is_pure(module: str) -> bool:
    if is_within(module, ("deltasnap_assets",)):
        return room_of(module) in PURE_ROOMS_OF_THE_APP or module in PURE_ENTRIES_OF_THE_APP
    return room_of(module) not in SPARK_ROOMS


PURE_MODULES = [name for name in MODULES if is_pure(name)]


@cache
def nodes(module: str) -> tuple[ast.AST, ...]:
    """Every syntax node of one of our modules."""
    return tuple(ast.walk(ast.parse(MODULES[module].read_text(encoding="utf-8"))))


@cache
def imported_modules(module: str) -> frozenset[str]:
    """Every module imported by one of our modules, anywhere in the file, by absolute name."""
    is_package = MODULES[module].name == "__init__.py"
    package = module if is_package else module.rpartition(".")[0]
    found: set[str] = set()
    for node in nodes(module):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            parents = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
            base = ".".join([*parents, *([node.module] if node.module else [])])
            names = {f"{base}.{alias.name}" for alias in node.names}
            found |= {name if name in MODULES else base for name in names}
    return frozenset(found)
