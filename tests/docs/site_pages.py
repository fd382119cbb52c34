"""Hooks of `mkdocs build`: files at the root as pages of the site, and links that work there and in the repository."""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File

ROOT = Path(__file__).resolve().parents[2]

ROOT_PAGES = {
    "README.md": "index.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security.md",
    "ARCHITECTURE.md": "architecture.md",
    "benchmarks/CAPACITY.md": "capacity.md",
}
"""Files outside `docs/`, and the pages that they become."""

_LINK = re.compile(r"\]\((?P<target>[^)\s]+)\)")
_FENCE = re.compile(r"(^```.*?^```$)", re.DOTALL | re.MULTILINE)
_BLOCKS = (re.compile(r"\|"), re.compile(r"- |\d+\. "))
"""Beginnings of lines: of a table, of a list."""

_SOURCES = {page: source for source, page in ROOT_PAGES.items()}


def on_files(files: Any, config: Any, **_: Any) -> Any:
    """Add the files at the root that exist. The navigation reports those that do not."""
    for source, page in ROOT_PAGES.items():
        if (ROOT / source).exists():
            files.append(File.generated(config, page, content=(ROOT / source).read_text(encoding="utf-8")))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Return the text of a page with its links to files of the repository replaced by links to pages."""
    here = page.file.src_uri
    source = _SOURCES.get(here, f"docs/{here}")
    parts = _FENCE.split(markdown)  # every other one is a block of code
    parts[::2] = [
        separated(_LINK.sub(lambda match: f"]({site_target(match['target'], source, here)})", text))
        for text in parts[::2]
    ]
    return "\n".join(parts)


def separated(text: str) -> str:
    """Return a text with an empty line before each table and list, as Python-Markdown requires."""
    lines = [""]
    for line in text.split("\n"):
        start = next((block for block in _BLOCKS if block.match(line)), None)
        if start is not None and not start.match(lines[-1]) and not lines[-1].startswith("  "):
            lines.append("")
        lines.append("" if line.startswith("<!--") else line)
    return "\n".join(lines[1:])


def site_target(target: str, source: str, page: str) -> str:
    """Return the target of a link for the site. source: the file that has the link, relative to the root."""
    path, hash_sign, anchor = target.partition("#")
    if not path or "://" in target or target.startswith("mailto:"):
        return target
    linked = posixpath.normpath(posixpath.join(posixpath.dirname(source), path))
    linked_page = ROOT_PAGES.get(linked) or (linked.removeprefix("docs/") if linked.startswith("docs/") else None)
    if linked_page is None:
        return target  # no page: mkdocs reports it
    return posixpath.relpath(linked_page, posixpath.dirname(page) or ".") + hash_sign + anchor
