"""The version that the last run of an asset read, compared with the versions of the store."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from deltasnap_assets.tables.assets.last_run import ReadVersion
from deltasnap_core import VersionManifest
from tests.core.store.manifests import GENERATION, log_store, store_versions, stored_table, table_log


@pytest.fixture
def manifests(tmp_path: Path) -> dict[int, VersionManifest]:
    table = stored_table(tmp_path)
    store_versions(table, table_log(log_store(range(3))), range(3))
    return {each.version: each for each in table.read_manifests([*table.names_in_force().values()])}


def test_version_that_was_read_is_identified_by_its_generation_and_commit(
    manifests: dict[int, VersionManifest],
) -> None:
    read = ReadVersion.of(manifests[1])
    assert (read.version, read.generation) == (1, GENERATION)
    assert len(read.commit or "") >= 32
    assert ReadVersion.from_json(read.to_json()) == read
    assert ReadVersion.of(replace(manifests[1], identity=None)).commit is None


@pytest.mark.parametrize("values", [None, {}, {"version": "1", "generation": "g", "commit": None}, {"version": 1}, 7])
def test_other_metadata_is_no_version(values: Any) -> None:
    assert ReadVersion.from_json(values) is None


def test_version_is_before_the_latest_of_the_same_log(manifests: dict[int, VersionManifest]) -> None:
    read, latest = ReadVersion.of(manifests[1]), manifests[2]
    assert read.is_before(latest, manifests[1])
    assert read.is_before(manifests[1], manifests[1])
    assert read.is_before(latest, None)
    assert not read.is_before(manifests[0], None)
    assert not replace(read, generation="000002-other").is_before(latest, manifests[1])
    assert not replace(read, generation="000002-other").is_before(latest, None)
    assert not replace(read, commit="another").is_before(latest, manifests[1])
    assert replace(read, commit=None).is_before(latest, manifests[1])
    assert read.is_before(latest, replace(manifests[1], identity=None))
