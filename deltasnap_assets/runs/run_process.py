"""Which process a run is in, and whether it still lives: so that a run whose process was killed is known for lost.

Dagster itself takes such a run for one under way for ever, and with it every place it holds in a queue. Its own run
monitoring is no help: it knows the runs that its daemon launched, and takes those of `deltasnap refresh` for dead.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import dagster as dg

from deltasnap_assets.processes import this_process

# Dagster keeps tags that begin so out of its pages: a name that is there for machines would stand first in its list.
HIDDEN_TAG_PREFIX = ".dagster/deltasnap/"
PROCESS_TAG = f"{HIDDEN_TAG_PREFIX}process"
HEARTBEAT_SECONDS = 30.0


@contextmanager
def heartbeat(instance: dg.DagsterInstance, run_id: str, every_seconds: float = HEARTBEAT_SECONDS) -> Iterator[None]:
    """Tag a run with this process, and again every few seconds until the end: that sets when it was last updated.

    By that time, which is the instance's, any machine can tell a run that lives from one that is lost. Of an ephemeral
    instance no other process asks: it is tagged once, since its database in memory lets no second thread in.
    """
    tags, ended = {PROCESS_TAG: this_process()}, threading.Event()

    def beat() -> None:
        while not ended.wait(every_seconds):
            try:
                instance.add_run_tags(run_id, tags)
            except Exception:  # noqa: BLE001  # a storage that is busy or away for a moment: the next one counts
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
