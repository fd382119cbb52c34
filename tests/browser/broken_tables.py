"""Tables with one fault each, for tests in a browser."""

from __future__ import annotations

import shutil
from contextlib import suppress
from pathlib import Path

import dagster as dg
from deltalake import DeltaTable

from deltasnap_assets.command.local.local_instance import DAGSTER_YAML, DEFAULT_HOME
from deltasnap_assets.definitions import build_definitions
from deltasnap_assets.demo.demo_table import grow
from deltasnap_assets.runs.refresh import refresh_table
from deltasnap_assets.settings.loading import load_settings
from deltasnap_assets.tables.assets.fleet_asset import FLEET_JOB
from deltasnap_core import DeltaSnapError
from deltasnap_core.protocol.log_files.file_names import checkpoint_file, commit_file
from tests.builders import commit_info, content, protocol

VERSIONS = 8
TABLES = ("footer", "gap", "garbage", "feature", "dropped", "healthy")


def make_broken_tables(folder: Path) -> None:
    """Write a configuration and its tables into a folder. Each is refreshed, breaks, and is refreshed again."""
    tables = "".join(f"  - {{name: {name}, path: data/{name}, poll_seconds: 2}}\n" for name in TABLES)
    (folder / "deltasnap.yaml").write_text(f'spark: {{master: "local[1]"}}\ntables:\n{tables}', encoding="utf-8")
    home = folder / DEFAULT_HOME
    home.mkdir(parents=True)
    (home / "dagster.yaml").write_text(DAGSTER_YAML, encoding="utf-8")
    settings = load_settings(folder=folder, environment={})
    defs = build_definitions(settings)
    with dg.DagsterInstance.from_config(str(home)) as instance:
        for table in settings.tables:
            path = folder / "data" / table.name
            for versions in (4, VERSIONS):
                for _ in grow(path, versions):
                    pass
                if versions == VERSIONS:
                    _damage(table.name, path)
                with suppress(DeltaSnapError):
                    refresh_table(defs, settings, table, instance, log_level="CRITICAL")
        assert defs.resolve_job_def(FLEET_JOB).execute_in_process(instance=instance).success


def _damage(name: str, table: Path) -> None:
    log = table / "_delta_log"
    if name == "footer":
        DeltaTable(table).create_checkpoint()
        file = log / checkpoint_file(VERSIONS - 1)
        sound = file.read_bytes()
        file.write_bytes(sound[:-400] + bytes(byte ^ 0xFF for byte in sound[-400:]))
    elif name == "gap":
        (log / commit_file(6)).unlink()
    elif name == "garbage":
        (log / commit_file(6)).write_text("no JSON\n", encoding="utf-8")
    elif name == "feature":
        asks = protocol(3, 7, readerFeatures=["madeUp"], writerFeatures=["madeUp"])
        (log / commit_file(VERSIONS)).write_bytes(content([commit_info("UPGRADE"), asks]))
    elif name == "dropped":
        shutil.rmtree(table)
