"""Whole outputs, each in a file beside its tests. `DELTASNAP_WRITE_SNAPSHOTS=1 pytest ...` writes the files again."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path


def assert_snapshot(file: Path, found: object) -> None:
    """Assert that a text, or a value as JSON, is what a file in the folder `snapshots` of its own folder has."""
    text = found if isinstance(found, str) else json.dumps(found, indent=1, ensure_ascii=False, sort_keys=True)
    text = re.sub(r"\[[^][{}]*]", lambda short: re.sub(r"\n *", " ", short[0]), text).rstrip("\n") + "\n"
    file = file.parent / "snapshots" / file.name
    if "DELTASNAP_WRITE_SNAPSHOTS" in os.environ:
        file.parent.mkdir(exist_ok=True)
        file.write_text(text, encoding="utf-8")
    assert text == file.read_text(encoding="utf-8")
