"""Which snapshots keep their counted files in memory, to follow the next commits."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from deltasnap_core import TableLog
from deltasnap_core.replay.driver.held_files import HeldFiles
from tests.builders import add, metadata, protocol, write_log
from tests.without_spark import log_without_spark


def test_only_the_current_snapshot_keeps_the_files_that_it_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_log(tmp_path, {0: [protocol(), metadata(), add("a")]})
    log = log_without_spark(TableLog.for_path(tmp_path))
    earlier, held = log.snapshot, list[bool]()
    count = HeldFiles.count

    def counted(*given: Any, hold: bool) -> Any:
        held.append(hold)
        return count(*given, hold=hold)

    monkeypatch.setattr(HeldFiles, "count", counted)
    write_log(tmp_path, {1: [add("b")]})
    later = log.update()
    assert [each.computed_state.num_of_files for each in (earlier, later)] == [1, 2]
    assert held == [False, True]
