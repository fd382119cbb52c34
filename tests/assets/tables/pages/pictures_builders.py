"""Builders for the tests of pictures."""

from __future__ import annotations

from urllib.parse import unquote
from xml.etree import ElementTree


def texts(picture: str) -> list[str]:
    """The text in a chart, which must be well-formed Markdown of one image."""
    before, _, svg = picture.partition("](<data:image/svg+xml,")
    assert before.startswith("![")
    assert not set("<>\\\n`").intersection(svg[:-2])
    root = ElementTree.fromstring(unquote(svg[:-2]))
    return [text.text or "" for text in root.iter("{http://www.w3.org/2000/svg}text")]
