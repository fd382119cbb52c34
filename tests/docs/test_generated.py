"""The documentation says what the code says, and leads nowhere that is not there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.docs.generated import DOCUMENTS, ROOT, filled_in

LINK = re.compile(r"\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_tables_are_those_of_the_code(document: Path) -> None:
    text = document.read_text(encoding="utf-8")
    assert filled_in(text) == text, "python -m tests.docs makes them anew"


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_links_lead_somewhere(document: Path) -> None:
    for target in LINK.findall(document.read_text(encoding="utf-8")):
        path, _, anchor = target.partition("#")
        file = (document.parent / path).resolve() if path else document
        assert file.exists(), target
        assert not anchor or anchor in anchors(file), target


def test_every_document_is_linked_in_the_readme() -> None:
    targets = LINK.findall((ROOT / "README.md").read_text(encoding="utf-8"))
    assert {str(path.relative_to(ROOT)) for path in DOCUMENTS[1:]} <= set(targets)


def anchors(file: Path) -> set[str]:
    """The anchors of a document's headings, as they are commonly made."""
    headings = HEADING.findall(file.read_text(encoding="utf-8"))
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}
