"""The last version that changes data, from the status document, the manifests and the log."""

from __future__ import annotations

from pathlib import Path

import pytest

from deltasnap_assets.runs.planning.data_version import last_data_change
from deltasnap_assets.runs.stores import log_of, store_of
from deltasnap_assets.settings.config import Settings
from deltasnap_assets.settings.table_settings import TableSettings
from deltasnap_core.support import DataChange, LastPoll, ManifestName
from tests.builders import add, metadata, protocol, write_log

QUIET = [add("b", dataChange=False)]
LOG = {0: [protocol(), metadata()], 1: [add("a")], 2: QUIET, 3: QUIET}


@pytest.mark.parametrize(
    ("known_to", "generation", "expected"),
    [(2, "g", 2), (3, "g", 2), (4, "g", 1), (2, "other", 1)],
    ids=["an earlier version", "this version", "a later version", "another log"],
)
def test_recorded_answer_counts_if_it_is_about_this_log(
    known_to: int, generation: str, expected: int, tmp_path: Path
) -> None:
    table = TableSettings(name="events", path=str(tmp_path / "events"))
    settings = Settings(storage=str(tmp_path / "store"), tables=(table,))
    write_log(tmp_path / "events", LOG)
    known = DataChange(version=2, known_to=known_to, generation=generation)
    store_of(settings).polls.write("events", LastPoll(polled_at_ms=1, data_change=known))
    names = {known_to: ManifestName(generation="g", version=known_to)}
    listing = log_of(table).list()
    assert last_data_change(settings, table, listing, 3, names) == expected
