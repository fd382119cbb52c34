"""Records the process of a run and whether it is alive, so that a run whose process was killed is detected as lost.

In Dagster, such a run stays in progress forever and keeps its slots in a queue. Dagster's run monitoring does not
help: it supports only runs launched by its daemon, and treats runs of `deltasnap refresh` as dead.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import dagster as dg

from deltasnap_assets.processes import this_process

# Dagster hides tags with this prefix in its pages: a tag for machines should not be the first in its list.
HIDDEN_TAG_PREFIX = ".dagster/deltasnap/"
PROCESS_TAG = f"{HIDDEN_TAG_PREFIX}process"
HEARTBEAT_SECONDS = 30.0


@contextmanager
def heartbeat(instance: dg.DagsterInstance, run_id: str, every_seconds: float = HEARTBEAT_SECONDS) -> Iterator[None]:
    """Tag a run with this process, and again every few seconds until the end. That renews the run's update time.

    With that time, on the instance's clock, any machine can distinguish a live run from a lost one. No other process
    reads an ephemeral instance, so its run is tagged once: its in-memory database does not allow a second thread.
    """
    tags, ended = {PROCESS_TAG: this_process()}, threading.Event()

    def beat() -> None:
        while not ended.wait(every_seconds):
            try:
                instance.add_run_tags(run_id, tags)
            except Exception:  # noqa: BLE001  # the storage is busy or unavailable for a moment: the next tag counts
                continue

    instance.add_run_tags(run_id, tags)
    if instance.is_ephemeral:
        yield
        return
    thread = threading.Thread(target=beat, name="deltasnap-heartbeat", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
