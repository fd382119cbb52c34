"""Writes events while a long step runs, so that its run does not count as silent: see `UnfinishedRuns`."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import dagster as dg

PROGRESS_SECONDS = 120.0


@contextmanager
def progress_logged(
    instance: dg.DagsterInstance, run: dg.DagsterRun, work: str, every_seconds: float = PROGRESS_SECONDS
) -> Iterator[None]:
    """Write an event to the log of a run every two minutes until the block ends. work: its name in the message.

    A query on Spark and a read of a long log write none. No other process reads an ephemeral instance, so nothing is
    written to it: its in-memory database does not allow a second thread.
    """
    if instance.is_ephemeral:
        yield
        return
    ended = threading.Event()
    thread = threading.Thread(target=_write, args=(instance, run, work, every_seconds, ended), daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def _write(
    instance: dg.DagsterInstance, run: dg.DagsterRun, work: str, every_seconds: float, ended: threading.Event
) -> None:
    began = time.monotonic()
    while not ended.wait(every_seconds):
        try:
            # Not a message of the logger: an instance may keep only errors of it (`python_log_level`).
            instance.report_engine_event(f"{work}: running for {time.monotonic() - began:.0f} s.", run)
        except Exception:  # noqa: BLE001  # the storage is busy or unavailable for a moment: the next event counts
            continue
