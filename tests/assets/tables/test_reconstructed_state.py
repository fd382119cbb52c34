"""The page of the asset `reconstructed_state`."""

from __future__ import annotations

from pathlib import Path

import dagster as dg
import pytest

from tests.assets.runs.test_refresh import Refreshed
from tests.builders import metadata, write_log
from tests.driver_bases import use_driver_bases


def test_each_version_shows_its_changes_since_the_one_before_even_of_an_earlier_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_driver_bases(monkeypatch)
    table = Refreshed(tmp_path)
    table.write(0, 1)
    table.refresh()
    write_log(
        table.folder,
        {2: [metadata(configuration={"a": "1"})], 3: [], 4: [metadata(configuration={"a": "2", "b": "3"})]},
    )
    table.refresh()
    asset = dg.AssetKey(["events", "reconstructed_state"])
    records = table.instance.fetch_materializations(asset, limit=9).records
    shown = {}
    for record in records:
        assert record.asset_materialization is not None
        entry = record.asset_materialization.metadata.get("changed_besides_files")
        shown[record.partition_key] = None if entry is None else entry.value
    assert shown == {
        "0": None,
        "1": "nothing",
        "2": r"- property a \= 1 added",
        "3": "nothing",
        "4": "- property b \\= 3 added\n- property a \\= 2\\, was 1",
    }
