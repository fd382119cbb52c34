"""The versions of a run that the log lost are left out. See also test_each_asset."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from deltasnap_assets.runs.planning.plan import lost_text
from deltasnap_assets.settings.table_settings import TableSettings
from deltasnap_assets.tables.assets import cleaned_up_versions
from deltasnap_assets.tables.assets.cleaned_up_versions import without_cleaned_up


@pytest.mark.parametrize(
    ("versions", "in_log", "left", "removed"),
    [
        ((0, 1, 2, 3, 4), range(3, 9), (0, 1, 3, 4), ["2"]),
        ((1, 4), range(3, 9), (1, 4), []),
        ((2,), range(3, 9), (2,), []),
        ((1, 2), range(0), (1, 2), []),
    ],
    ids=["lost", "stored", "nothing left", "log without versions"],
)
def test_lost_versions_that_are_neither_done_nor_stored_are_removed_if_others_are_left(
    versions: tuple[int, ...], in_log: range, left: tuple[int, ...], removed: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    partitions, warnings = list[tuple[str, str]](), list[str]()
    instance = SimpleNamespace(delete_dynamic_partition=lambda name, key: partitions.append((name, key)))
    context: Any = SimpleNamespace(instance=instance, log=SimpleNamespace(warning=warnings.append))
    listing = SimpleNamespace(reconstructable_versions=lambda: in_log)
    snapshots: Any = SimpleNamespace(listing=lambda _: listing, stored_versions=lambda _: [1])
    monkeypatch.setattr(cleaned_up_versions, "known_of", lambda *_: SimpleNamespace(done=frozenset({0})))
    assert without_cleaned_up(context, snapshots, TableSettings(name="t", path="/t"), versions) == left
    assert partitions == [("t_versions", key) for key in removed]
    assert warnings == [lost_text("t", {int(key)}) for key in removed]
