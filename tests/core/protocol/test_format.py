"""The format of a table's data files."""

from __future__ import annotations

import pytest

from deltasnap_core.protocol.actions import Format, Metadata


@pytest.mark.parametrize("provider", ["parquet", "orc", "delta"])
def test_provider_comes_from_the_log(provider: str) -> None:
    found = Metadata.from_json({"id": "a", "format": {"provider": provider, "options": {"k": "v"}}})
    assert found.format == Format(provider=provider, options={"k": "v"})
    assert found.to_json()["format"] == {"provider": provider, "options": {"k": "v"}}


@pytest.mark.parametrize("values", [{}, {"format": None}, {"format": {}}, {"format": {"provider": None}}])
def test_absent_format_is_parquet_without_options(values: dict[str, object]) -> None:
    assert Metadata.from_json({"id": "a", **values}).format == Format(provider="parquet", options={})
