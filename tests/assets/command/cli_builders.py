"""Builders for the tests of cli."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from tests.forks import Forks
from tests.import_boundaries_builders import CODE_LOCATION, PURE_MODULES

COMMAND = "from deltasnap_assets.command.entry import main; main()"


WITHOUT_SPARK = f"import pytest, tests.driver_bases as by; by.use_driver_bases(pytest.MonkeyPatch()); {COMMAND}"
"""The command, with bases written by the driver: it starts no JVM to store the first version of a table."""


ROOT = Path(__file__).resolve().parents[3]


FORKS = Forks(
    *PURE_MODULES,  # test_import_boundaries asserts what these two load
    CODE_LOCATION,
    "dagster",
    "pyspark.sql",
    "pyarrow.acero",
    "pyarrow.dataset",
    "upath.core",
    "fsspec.implementations.local",
    "rich._emoji_codes",
    "rich.status",
    "deltasnap_assets.command.cli",
    "deltasnap_assets.command.doctor",
    "deltasnap_assets.command.local.local_instance",
    "deltasnap_assets.command.views.counting",
    "deltasnap_assets.command.views.diff",
    "deltasnap_assets.command.views.inspect_view",
    "deltasnap_assets.command.views.scan_view",
    "deltasnap_assets.command.views.vacuum_view",
    "deltasnap_assets.command.views.verify_view",
    "deltasnap_assets.command.views.refresh_view",
    "deltasnap_assets.settings.config",
    "deltasnap_assets.spark.session.needed",
    "tests.assets.command.fast_typer",
    "tests.assets.command.warm_instance",
    "tests.driver_bases",
)


def deltasnap(
    *arguments: str, folder: Path, command: str = COMMAND, **environment: str
) -> subprocess.CompletedProcess[str]:
    """Run the command in a separate process."""
    env = {**os.environ, "PYTHONPATH": str(ROOT), "COLUMNS": "120", "TERM": "dumb", **environment}
    env.pop("DELTASNAP_CONFIG", None)
    return FORKS.run(command, *arguments, cwd=folder, env=env)


def assert_one_line_of_error(result: subprocess.CompletedProcess[str], *parts: str) -> None:
    assert result.returncode != 0
    assert "Traceback" not in result.stderr + result.stdout
    lines = result.stderr.strip().splitlines()
    assert len(lines) == 1, result.stderr
    for part in ("error: ", *parts):
        assert part in lines[0]


def small_table(path: Path, *, reader_features: tuple[str, ...] | None = None) -> Path:
    """A table of two commits; with reader features its protocol uses table features."""
    log = path / "_delta_log"
    log.mkdir(parents=True)
    protocol: dict[str, object] = {"minReaderVersion": 1, "minWriterVersion": 2}
    if reader_features is not None:
        features = list(reader_features)
        protocol = {"minReaderVersion": 3, "minWriterVersion": 7}
        protocol |= {"readerFeatures": features, "writerFeatures": features}
    schema = {"type": "struct", "fields": [{"name": "id", "type": "long", "nullable": True, "metadata": {}}]}
    metadata = {"id": "a-table", "format": {}, "schemaString": json.dumps(schema), "partitionColumns": []}
    first = [{"commitInfo": {"operation": "CREATE TABLE"}}, {"protocol": protocol}, {"metaData": metadata}]
    add = {"path": "a.parquet", "partitionValues": {}, "size": 2048, "modificationTime": 1, "dataChange": True}
    second = [{"commitInfo": {"operation": "WRITE", "userName": "ada"}}, {"add": add}]
    for version, actions in enumerate((first, second)):
        (log / f"{version:020}.json").write_text("\n".join(map(json.dumps, actions)), encoding="utf-8")
    return path


def java_of(path: Path, version: str) -> str:
    """A JAVA_HOME whose java prints that version."""
    java = path / "jdk" / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\" 2020-01-01' >&2\n", encoding="utf-8")
    java.chmod(0o755)
    return str(path / "jdk")


def without_java(path: Path) -> dict[str, str]:
    """The environment of a machine without Java and without the extra `java`."""
    return {"JAVA_HOME": str(path / "none"), "DELTASNAP_JAVA": "system"}


def in_a_new_process(code: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run Python code in a new process."""
    return subprocess.run(
        [sys.executable, "-c", code],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
