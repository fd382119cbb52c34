"""Names that a package exports, which are loaded on first use."""

from __future__ import annotations

from types import ModuleType

import pytest

import deltasnap_assets
import deltasnap_core


@pytest.mark.parametrize("package", [deltasnap_core, deltasnap_assets], ids=lambda package: package.__name__)
def test_every_exported_name_can_be_loaded(package: ModuleType) -> None:
    missing = [name for name in package.__all__ if getattr(package, name, None) is None]
    assert missing == []
    assert {*package.__all__} <= {*dir(package)}
    assert not hasattr(package, "no_such_name")
