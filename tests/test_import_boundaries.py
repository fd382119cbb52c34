"""The allowed imports between the layers of the project."""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterable

import pytest

from tests.import_boundaries_builders import (
    CODE_LOCATION,
    MODULES,
    PURE_ENTRIES_OF_THE_APP,
    PURE_MODULES,
    PURE_ROOMS_OF_THE_APP,
    ROOT,
    SPARK_ROOMS,
    imported_modules,
    is_within,
    nodes,
    room_of,
)

# A module imports only from its own layer or a lower one.
LAYERS = {
    "deltasnap_core.clock": 0,
    "deltasnap_core.distribution": 0,
    "deltasnap_core.errors": 0,
    "deltasnap_core.once": 0,
    "deltasnap_core.ranges": 0,
    "deltasnap_core.redaction": 0,
    "deltasnap_core.protocol": 1,
    "deltasnap_core.storage": 1,
    "deltasnap_core.rules": 2,
    "deltasnap_core.log": 3,
    "deltasnap_core.replay": 4,
    "deltasnap_core.catalogs": 5,
    "deltasnap_core.scan": 5,
    "deltasnap_core.snapshot": 6,
    "deltasnap_core.store": 7,
    "deltasnap_core": 8,
    "deltasnap_core.support": 8,
    "deltasnap_assets": 9,
}
# They may import PySpark; the pure folders only for types.
PYSPARK_USERS = (
    "deltasnap_core.catalogs",
    "deltasnap_core.replay",
    "deltasnap_core.scan",
    "deltasnap_core.snapshot",
    "deltasnap_core.store",
)
FSSPEC_USERS = ("deltasnap_core.storage",)
# These require a JVM in this process, or run Python on the executors.
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


def layer_of(module: str) -> int:
    return LAYERS[max((package for package in LAYERS if is_within(module, (package,))), key=len)]


def test_every_layer_and_room_exists() -> None:
    assert len(MODULES) > 20
    assert len(PURE_MODULES) > 100
    rooms = {room_of(module) for module in MODULES}
    assert {*SPARK_ROOMS, *PURE_ROOMS_OF_THE_APP} - rooms == set()
    assert set(PURE_ENTRIES_OF_THE_APP) - MODULES.keys() == set()
    assert {package for package in LAYERS if not any(is_within(name, (package,)) for name in MODULES)} == set()


def test_engines_do_not_import_each_other() -> None:
    engines = ("deltasnap_core.replay.spark", "deltasnap_core.replay.driver")
    for engine, other in (engines, engines[::-1]):
        modules = [module for module in MODULES if is_within(module, (engine,))]
        assert len(modules) > 4
        assert {
            module for module in modules if any(is_within(name, (other,)) for name in imported_modules(module))
        } == set()


def test_one_module_defines_the_limits_of_the_driver() -> None:
    """Only the engine catches UnusualError, and only it defines the limits of the driver."""
    catching = {
        module
        for module in MODULES
        for node in nodes(module)
        if isinstance(node, ast.ExceptHandler) and node.type is not None and "UnusualError" in ast.unparse(node.type)
    }
    assert catching == {"deltasnap_core.replay.engine"}


def modules_that_load(*packages: str) -> set[str]:
    """Return the modules that load some packages, if a new process imports the pure modules, then the code location."""
    from tests.assets.command.cli_builders import FORKS

    result = FORKS.run("import json, __main__; print(json.dumps(__main__.LOADED_BY))")
    loaded_by = json.loads(result.stdout)
    assert {*PURE_MODULES, CODE_LOCATION} <= loaded_by.keys(), result.stderr
    return {loaded_by[package] for package in packages}


def test_pure_modules_load_neither_pyspark_nor_dagster() -> None:
    assert modules_that_load("pyspark", "dagster").isdisjoint(PURE_MODULES)


def test_code_location_loads_no_pandas_before_a_run_needs_it() -> None:
    """Arrow imports pandas for the first array or scalar made from a Python value: a tenth of the time to load."""
    assert modules_that_load("pandas").isdisjoint([*PURE_MODULES, CODE_LOCATION])


def found_in(modules: Iterable[str], offends: Callable[[str], set[str]]) -> dict[str, set[str]]:
    """The violations of each module, without modules that have none."""
    return {module: found for module in modules if (found := offends(module))}


def within(*packages: str) -> list[str]:
    return [name for name in MODULES if is_within(name, packages)]


@pytest.mark.parametrize(
    "module", ["deltasnap_assets", "deltasnap_assets.definitions", "deltasnap_assets.command.entry"]
)
def test_system_without_locks_of_processes_is_reported_with_the_supported_ones(module: str) -> None:
    without = f"import sys; sys.modules['fcntl'] = None; import {module}"  # as on Windows
    imported = subprocess.run([sys.executable, "-c", without], capture_output=True, text=True, check=False)
    message = "ImportError: deltasnap_assets runs on Linux and macOS. On Windows, use it in WSL."
    assert imported.stderr.strip().splitlines()[-1] == message
    assert "ModuleNotFoundError" not in imported.stderr


def test_no_test_module_imports_another() -> None:
    modules = (ROOT / "tests").rglob("*.py")
    imports = re.compile(r"^ *(?:from|import) (?:tests\.)?(?:\w+\.)*test_\w+", re.MULTILINE)
    assert {str(module.relative_to(ROOT)) for module in modules if imports.search(module.read_text("utf-8"))} == set()


def test_imports_point_to_the_left() -> None:
    def to_the_right(module: str) -> set[str]:
        ours = {name for name in imported_modules(module) if is_within(name, ("deltasnap_core", "deltasnap_assets"))}
        return {name for name in ours if layer_of(name) > layer_of(module)}

    assert found_in(MODULES, to_the_right) == {}


def test_app_uses_only_public_names_of_the_core() -> None:
    def inner(module: str) -> set[str]:
        public = ("deltasnap_core.catalogs", "deltasnap_core.errors", "deltasnap_core.support")
        return {name for name in imported_modules(module) if name.startswith("deltasnap_core.")}.difference(public)

    assert found_in(within("deltasnap_assets"), inner) == {}


def test_core_imports_third_party_packages_only_where_allowed() -> None:
    def out_of_place(module: str) -> set[str]:
        allowed = {"pyspark"} if is_within(module, PYSPARK_USERS) else set()
        allowed |= {"fsspec"} if is_within(module, FSSPEC_USERS) else set()
        return {name.partition(".")[0] for name in imported_modules(module)} & {
            "dagster",
            "pyspark",
            "fsspec",
        } - allowed

    assert found_in(within("deltasnap_core"), out_of_place) == {}


def test_one_module_imports_private_names_of_dagster() -> None:
    def private(module: str) -> set[str]:
        private = ("dagster._", "dagster_shared", "dagster.components.")
        return {name for name in imported_modules(module) if name.startswith(private)}

    assert found_in(set(MODULES) - {"deltasnap_assets.dagster_internals"}, private) == {}


def test_messages_outside_the_command_name_no_command_that_reads_deltasnap_yaml() -> None:
    """A `dg` project has none, so that such advice would not work there."""

    def advised(module: str) -> set[str]:
        texts = {node for node in nodes(module) if isinstance(node, ast.Constant) and isinstance(node.value, str)}
        docstrings = {node.value for node in nodes(module) if isinstance(node, ast.Expr)}
        found = (re.search("deltasnap (refresh|fleet|ui|doctor)", str(node.value)) for node in texts - docstrings)
        return {each[0] for each in found if each is not None}

    outside = set(MODULES).difference(within("deltasnap_assets.command"))
    assert found_in(outside, advised) == {}


def test_core_runs_on_any_spark() -> None:
    def forbidden(module: str) -> set[str]:
        attributes = {node.attr for node in nodes(module) if isinstance(node, ast.Attribute)}
        names = {alias.name for node in nodes(module) if isinstance(node, ast.ImportFrom) for alias in node.names}
        return (attributes | names) & FORBIDDEN_NAMES

    assert found_in(within("deltasnap_core"), forbidden) == {}


def test_one_function_gives_local_rows_to_spark() -> None:
    """Spark loses rows of an Arrow table with an empty chunk, and Spark Connect rejects empty tables."""

    def forbidden(module: str) -> set[str]:
        attributes = {node.attr for node in nodes(module) if isinstance(node, ast.Attribute)}
        return attributes & {"createDataFrame"}

    found = found_in([*within("deltasnap_core"), *within("deltasnap_assets")], forbidden)
    assert found == {"deltasnap_core.replay.spark.session.local_rows": {"createDataFrame"}}
