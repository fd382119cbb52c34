"""The documentation agrees with the code, and its links work."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import yaml

from deltasnap_assets.checks.registry import CHECKS
from deltasnap_core import ALL_FILES_SCHEMA, TOMBSTONES_SCHEMA, errors
from tests.docs.generated import DOCUMENTS, ROOT, filled_in

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
