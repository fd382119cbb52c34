"""The documentation agrees with the code: its links, its tables, and each command and snippet on the demo table."""

from __future__ import annotations

import ast
import re
import shlex
from collections.abc import Iterator
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import typer
import yaml

from deltasnap_assets.checks.registry import CHECKS
from deltasnap_assets.command.cli import app
from deltasnap_assets.settings.config import Settings, SparkSettings
from deltasnap_assets.settings.loading import read_settings
from deltasnap_core import ALL_FILES_SCHEMA, TOMBSTONES_SCHEMA, errors
from deltasnap_core.scan.tables import vacuum_candidates
from tests.core.scan.tables.vacuum_candidates_builders import PlainKeys
from tests.docs.generated import DOCUMENTS, ROOT, filled_in
from tests.docs.snippets_builders import TEXTS, blocks

LINK = re.compile(r"\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)
REFERENCE = re.compile(r"^::: (\S+)$", re.MULTILINE)
ENTRY = re.compile(r"`([\w/]+)`")


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_documented_tables_match_the_code(document: Path) -> None:
    text = document.read_text(encoding="utf-8")
    assert filled_in(text) == text, "run python -m tests.docs to update them"


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_links_have_existing_targets(document: Path) -> None:
    for target in LINK.findall(document.read_text(encoding="utf-8")):
        path, _, anchor = target.partition("#")
        file = (document.parent / path).resolve() if path else document
        assert file.exists(), target
        assert not anchor or anchor in anchors(file), target


def test_every_document_is_in_the_navigation_of_the_site() -> None:
    navigation = yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))["nav"]
    documents = {path.relative_to(ROOT / "docs").as_posix() for path in DOCUMENTS if path.is_relative_to(ROOT / "docs")}
    assert documents <= set(pages(navigation))
    assert {"index.md", "changelog.md", "contributing.md", "architecture.md"} <= set(pages(navigation))


def pages(entries: Any) -> Iterator[str]:
    """Yield the pages of a navigation, at any depth."""
    match entries:
        case str():
            yield entries
        case list():
            for entry in entries:
                yield from pages(entry)
        case dict():
            yield from pages(list(entries.values()))


@pytest.mark.parametrize("package", ["deltasnap_core", "deltasnap_assets"])
def test_every_public_name_is_in_the_reference(package: str) -> None:
    text = (ROOT / "docs" / "api" / f"{package.removeprefix('deltasnap_')}.md").read_text(encoding="utf-8")
    of_modules = {"deltasnap_core.errors", "deltasnap_core.catalogs"}  # documented as modules
    error_names = {name for name in dir(errors) if name.endswith("Error")}
    names = {f"{package}.{name}" for name in import_module(package).__all__ if name not in error_names}
    assert {*REFERENCE.findall(text)} - of_modules == names
    assert all(module in text for module in of_modules) == (package == "deltasnap_core")


def test_metadata_page_lists_the_entries_of_the_code() -> None:
    lines = (ROOT / "docs" / "metadata.md").read_text(encoding="utf-8").splitlines()
    documented = {name for line in lines if line.startswith("| `") for name in ENTRY.findall(line.split("|")[1])}
    assert entry_names() - documented == set()
    assert documented - literals() == set()


def literals() -> set[str]:
    """Return every text in the code of the app."""
    files = (ROOT / "deltasnap_assets").rglob("*.py")
    nodes = (node for file in files for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))))
    return {node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)}


def entry_names() -> set[str]:
    """Return the names of metadata entries in the modules that make them: keys of dictionaries, set or in one."""
    names = set()
    for module in ("metadata", "asset_pages"):
        path = ROOT / "deltasnap_assets" / "tables" / "pages" / f"{module}.py"
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            keys = node.keys if isinstance(node, ast.Dict) else [node.slice] if isinstance(node, ast.Subscript) else []
            names |= {key.value for key in keys if isinstance(key, ast.Constant) and isinstance(key.value, str)}
    columns = {*ALL_FILES_SCHEMA.fieldNames(), *TOMBSTONES_SCHEMA.fieldNames()}  # with a description
    return names - {check.name for check in CHECKS} - columns - {"..."}


def anchors(file: Path) -> set[str]:
    """The anchors of a document's headings."""
    headings = HEADING.findall(file.read_text(encoding="utf-8"))
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


if TYPE_CHECKING:
    from pyspark.sql import SparkSession

COMMAND = re.compile(r"`(deltasnap [^`]+)`")
MODULE = re.compile(r"python -m\s+([\w.]+)")
OPTIONS = re.compile(r"^\|.*\| `(\{.*?\})`", re.MULTILINE)
ENVIRONMENT = {
    "AWS_ACCESS_KEY_ID": "a",
    "AWS_SECRET_ACCESS_KEY": "b",
    "AZURE_STORAGE_CONNECTION_STRING": "c",
    "AZURE_STORAGE_KEY": "d",
    "ALERT_URL": "https://chat.example/hook",
    "DATABRICKS_HOST": "https://workspace.example",
    "DATABRICKS_TOKEN": "dapi-token",
}
COMMANDS = typer.main.get_command(app)


def commands() -> Iterator[str]:
    """Every `deltasnap ...` of the documents, its placeholders filled in."""
    for name, text in TEXTS.items():
        lines = [line for block in blocks(name, "sh") for line in block.splitlines()]
        found = [line.removeprefix(".venv/bin/") for line in lines] + COMMAND.findall(" ".join(text.split()))
        for line in found:
            if line.startswith("deltasnap ") and "..." not in line.split():
                yield line.replace("V1 V2", "1 2").replace("...", "").replace("key=value", "a=b")


@pytest.mark.parametrize("line", sorted(set(commands())))
def test_documented_command_is_valid(line: str) -> None:
    command, (_, *words) = COMMANDS, shlex.split(line)
    context = typer.Context(command)
    while isinstance(command, typer.core.TyperGroup) and words:
        name, *words = words
        found = command.get_command(context, name)
        assert found is not None, f"no command {name}"
        command = found
    if words:
        command.make_context(line, words)


@pytest.mark.parametrize("name", TEXTS)
def test_documented_modules_exist(name: str) -> None:
    for module in MODULE.findall(TEXTS[name]):
        assert find_spec(module) is not None, module


@pytest.mark.parametrize("name", [name for name in TEXTS if blocks(name, "yaml")])
def test_documented_configuration_is_valid(name: str, tmp_path: Path) -> None:
    for block in blocks(name, "yaml"):
        values = yaml.safe_load(block)
        if "attributes" in values:
            assert Settings.model_validate(values["attributes"]).tables
            continue
        (tmp_path / "deltasnap.yaml").write_text(block, encoding="utf-8")
        assert read_settings(tmp_path / "deltasnap.yaml", ENVIRONMENT).tables


def test_documented_sessions_are_valid() -> None:
    found = OPTIONS.findall(TEXTS["spark-and-clusters.md"])
    assert len(found) > 3
    for text in found:
        SparkSettings.model_validate(yaml.safe_load(text))


@pytest.fixture(scope="module")
def folder(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the demo table and a store, at the paths used in the documents."""
    pytest.importorskip("deltalake")
    from deltasnap_assets.demo.demo_table import grow
    from deltasnap_core import DeltaLog, SnapshotStore

    folder = tmp_path_factory.mktemp("documents")
    for _ in grow(folder / "data" / "events", 13):
        pass
    log = DeltaLog.for_table(spark, str(folder / "data" / "events"))
    SnapshotStore.open(spark, str(folder / ".deltasnap" / "store")).write_versions("events", log, range(13))
    return folder


@pytest.mark.spark
@pytest.mark.parametrize("name", ["store.md", "library.md"])
def test_documented_python_runs(name: str, folder: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    monkeypatch.setattr(vacuum_candidates, "FileKeys", PlainKeys)
    names: dict[str, object] = {"spark": spark}
    for block in blocks(name, "python"):
        exec(block.replace('"/data/', f'"{folder}/data/'), names)


def test_readme_has_the_two_commands_first() -> None:
    demo, tests = blocks("README.md", "sh")[:2]
    assert demo.strip().endswith(".venv/bin/deltasnap demo")
    assert tests.strip().endswith(".venv/bin/python -m pytest -q")


def test_readme_is_short() -> None:
    assert TEXTS["README.md"].count("\n") <= 150
    assert (ROOT / "docs").is_dir()


def test_guides_have_the_snippets_of_the_readme() -> None:
    """The snippets of the README are executed in `tests/assets/test_own_project.py`."""
    assert blocks("own-project.md", "python") == blocks("README.md", "python")
    assert blocks("dg-projects.md", "yaml") == [text for text in blocks("README.md", "yaml") if "attributes" in text]
