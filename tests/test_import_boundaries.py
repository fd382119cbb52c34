"""Which module may import which: the layers of the project, held by a test."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.forks import Forks

ROOT = Path(__file__).resolve().parent.parent
CORE = ROOT / "deltasnap_core"
ASSETS = ROOT / "deltasnap_assets"

# A module imports only from a layer of a smaller number, or from its own.
LAYERS = {
    "deltasnap_core.errors": 0,
    "deltasnap_core.once": 0,
    "deltasnap_core.ranges": 0,
    "deltasnap_core.redaction": 0,
    "deltasnap_core.protocol": 1,
    "deltasnap_core.storage": 1,
    "deltasnap_core.log": 2,
    "deltasnap_core.replay": 3,
    "deltasnap_core.scan": 4,
    "deltasnap_core.snapshot": 5,
    "deltasnap_core.store": 6,
    "deltasnap_core": 7,
    "deltasnap_assets": 8,
}
PURE = (
    "deltasnap_core.errors",
    "deltasnap_core.once",
    "deltasnap_core.ranges",
    "deltasnap_core.redaction",
    "deltasnap_core.protocol",
    "deltasnap_core.storage",
    "deltasnap_core.log",
)
ALSO_PURE = (
    "deltasnap_core",
    "deltasnap_core.scan.data_paths",
    "deltasnap_core.scan.deletion_vectors",
    "deltasnap_core.scan.predicate",
    "deltasnap_core.scan.predicate_values",
    "deltasnap_core.scan.roaring",
    "deltasnap_core.scan.skipping",
    "deltasnap_core.scan.table_columns",
    "deltasnap_core.snapshot.checksum_validation",
    "deltasnap_core.snapshot.options",
    "deltasnap_core.store.change_sets",
    "deltasnap_core.store.commit_facts",
    "deltasnap_core.store.generations",
    "deltasnap_core.store.layout",
    "deltasnap_core.store.log_identity",
    "deltasnap_core.store.manifest",
    "deltasnap_core.store.pruning",
    "deltasnap_core.store.shared_documents",
    "deltasnap_core.store.stored_table",
    "deltasnap_core.store.stored_versions",
    "deltasnap_core.store.version_documents",
    "deltasnap_assets.command.cli",
    "deltasnap_assets.settings.config",
    "deltasnap_assets.demo.demo_table",
    "deltasnap_assets.spark.java",
    "deltasnap_assets.spark.jvm_options",
    "deltasnap_assets.spark.connect_check",
    "deltasnap_assets.spark.session_config",
    "deltasnap_assets.tables.byte_units",
    "deltasnap_assets.texts",
    "deltasnap_assets.settings.distribution",
    "deltasnap_assets.spark.connect_server",
    "deltasnap_assets.command.terminal",
    "deltasnap_assets.spark.warm_up",
)
PYSPARK_USERS = ("deltasnap_core.replay", "deltasnap_core.scan", "deltasnap_core.snapshot", "deltasnap_core.store")
FSSPEC_USERS = ("deltasnap_core.storage",)
# They tie the code to one JVM in this process, or put Python on the executors.
FORBIDDEN_NAMES = {
    "udf",
    "pandas_udf",
    "mapInPandas",
    "mapInArrow",
    "applyInPandas",
    "rdd",
    "_jvm",
    "_jdf",
    "sparkContext",
}


def module_name(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def is_within(module: str, packages: tuple[str, ...]) -> bool:
    return any(module == package or module.startswith(package + ".") for package in packages)


CORE_FILES = sorted(CORE.rglob("*.py"))
ALL_FILES = CORE_FILES + sorted(ASSETS.rglob("*.py"))
MODULES = {module_name(path): path for path in ALL_FILES}
PURE_MODULES = [name for name in MODULES if is_within(name, PURE) or name in ALSO_PURE]


def layer_of(module: str) -> int:
    return LAYERS[max((package for package in LAYERS if is_within(module, (package,))), key=len)]


def imported_modules(module: str, path: Path) -> Iterator[str]:
    """Every module that the file imports, wherever in the file, by absolute name."""
    package = module if path.name == "__init__.py" else module.rpartition(".")[0]
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            parents = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
            base = ".".join([*parents, *([node.module] if node.module else [])])
            for alias in node.names:
                name = f"{base}.{alias.name}"
                yield name if name in MODULES else base


def test_every_layer_exists() -> None:
    assert len(MODULES) > 20
    assert {package for package in LAYERS if not any(is_within(name, (package,)) for name in MODULES)} == set()


# What the pure modules import of others, and what that imports when it is first used.
FORKS = Forks(
    "deltalake",
    "fsspec",
    "pandas",
    "pyarrow.compute",
    "pyarrow.json",
    "pyarrow.pandas_compat",
    "pyarrow.parquet",
    "pydantic",
    "rich",
    "typer",
    "yaml",
)


@pytest.mark.parametrize("module", ["sys", *PURE_MODULES])
def test_pure_module_loads_neither_pyspark_nor_dagster(module: str) -> None:
    check = f"import sys, {module}; print([m for m in ('pyspark', 'dagster') if m in sys.modules])"
    result = FORKS.run(check)
    assert (result.returncode, result.stdout.strip()) == (0, "[]"), result.stderr


@pytest.mark.parametrize("module", list(MODULES))
def test_imports_point_to_the_left(module: str) -> None:
    imported = set(imported_modules(module, MODULES[module]))
    ours = {name for name in imported if is_within(name, ("deltasnap_core", "deltasnap_assets"))}
    to_the_right = {name for name in ours if layer_of(name) > layer_of(module)}
    assert to_the_right == set()


# They take names that the core is about to get a public way to.
@pytest.mark.parametrize("module", [name for name in MODULES if is_within(name, ("deltasnap_assets",))])
def test_app_uses_the_public_names_of_the_core_only(module: str) -> None:
    inner = {name for name in imported_modules(module, MODULES[module]) if name.startswith("deltasnap_core.")}
    assert inner == set()


@pytest.mark.parametrize("module", [module_name(path) for path in CORE_FILES])
def test_core_uses_outside_packages_only_where_they_belong(module: str) -> None:
    tops = {name.partition(".")[0] for name in imported_modules(module, MODULES[module])}
    assert "dagster" not in tops
    assert "pyspark" not in tops or is_within(module, PYSPARK_USERS)
    assert "fsspec" not in tops or is_within(module, FSSPEC_USERS)


@pytest.mark.parametrize("module", [module_name(path) for path in CORE_FILES])
def test_core_runs_on_any_spark(module: str) -> None:
    tree = ast.parse(MODULES[module].read_text(encoding="utf-8"))
    attributes = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    names = {alias.name for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) for alias in node.names}
    assert (attributes | names) & FORBIDDEN_NAMES == set()
