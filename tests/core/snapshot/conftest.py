"""Tables in memory, opened without Spark: a Spark job makes their tests fail."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from deltasnap_core import DeltaLog, SnapshotOptions
from deltasnap_core.protocol.log_files import file_names
from tests.builders import TABLE_PATH, Action, CountingLogStore, MemoryLogStore, content, metadata, protocol
from tests.conftest import FixedClock


class Table:
    """A table in memory that counts accesses to its log."""

    def __init__(self, clock: FixedClock) -> None:
        self.files = MemoryLogStore()
        self.store = CountingLogStore(self.files)
        self.clock = clock

    def commit(self, version: int, *actions: Action) -> None:
        """Write a commit; without actions, version 0 gets protocol and metadata."""
        self.files.put_commit(version, *(actions or ((protocol(), metadata()) if version == 0 else ())))

    def commits(self, first: int, last: int) -> None:
        for version in range(first, last + 1):
            self.commit(version)

    def checkpoint(self, version: int, *actions: Action, broken: bool = False) -> str:
        """Write a V2 checkpoint in JSON without sidecars. Return its name."""
        name = file_names.uuid_checkpoint_file(version, "80a083e8-7026-4e79-81be-64bd76c43a11", "json")
        data = content([{"checkpointMetadata": {"version": version}}, *(actions or (protocol(), metadata()))])
        self.files.put(name, data[: len(data) // 2] if broken else data)
        return name

    def checksum(self, version: int, **fields: Any) -> None:
        """Write a `.crc` file."""
        counts = {"tableSizeBytes": 0, "numFiles": 0, "numMetadata": 1, "numProtocol": 1}
        values = {**counts, "metadata": metadata()["metaData"], "protocol": protocol()["protocol"], **fields}
        self.files.put(file_names.checksum_file(version), json.dumps(values).encode())

    def log(self, **arguments: Any) -> DeltaLog:
        """Open the table again, with an empty cache."""
        DeltaLog.clear_cache()
        options = SnapshotOptions(cache_state=False, validate_state=arguments.pop("validate_state", True))
        self.store.reset()
        none: Any = None
        return DeltaLog.for_table(none, TABLE_PATH, clock=self.clock, store=self.store, options=options, **arguments)


@pytest.fixture(autouse=True)
def forget_tables() -> Iterator[None]:
    yield
    DeltaLog.clear_cache()


@pytest.fixture
def table(clock: FixedClock) -> Table:
    return Table(clock)
