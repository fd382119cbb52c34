"""Builders for the tests of snippets."""

from __future__ import annotations

import re

from tests.docs.generated import DOCUMENTS

FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", re.DOTALL | re.MULTILINE)


TEXTS = {document.name: document.read_text(encoding="utf-8") for document in DOCUMENTS}


def blocks(name: str, language: str) -> list[str]:
    return [text for kind, text in FENCE.findall(TEXTS[name]) if kind == language]
