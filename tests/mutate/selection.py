"""A plugin of pytest that runs only the tests whose ids are listed in a file."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Keep the selected tests."""
    selected = set(json.loads(Path(os.environ["DELTASNAP_SELECTED_TESTS"]).read_text(encoding="utf-8")))
    items[:] = [item for item in items if item.nodeid in selected]
