"""Reads in threads: at most some at once, and none keeps a process from exiting."""

from __future__ import annotations

import time
from functools import partial
from threading import Event
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest

from deltasnap_core.storage.concurrency import ReadThreads, map_concurrently
from deltasnap_core.storage.request_limits import without_azure_retries
from tests.core.storage.concurrency_builders import FORKS

HANGING_READ = """
import os, signal, threading
from types import SimpleNamespace
from deltasnap_core.log.checkpoints import checkpoint_contents, checkpoint_pages
from deltasnap_core.log.commits.action_lines import LINES_SCHEMA
from deltasnap_core.replay.driver import checkpoint_shares
from deltasnap_core.storage.concurrency import map_concurrently

first = threading.Lock()

def hang(*_):
    if first.acquire(blocking=False):  # a second signal may interrupt the output of the traceback
        threading.Timer(0.05, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
    threading.Event().wait()

def batches():
    yield 1
    hang()

os.cpu_count = lambda: 2
checkpoint_contents._open = checkpoint_pages._read = hang
"""
READS = {
    "requests": "map_concurrently(hang, [1, 2])",
    "footers": "checkpoint_contents._open_all(None, [1, 2])",
    "pages": "checkpoint_pages.read_every_page("
    "None, SimpleNamespace(top_level=(1, 2), sidecars=(), lines=LINES_SCHEMA.empty_table()))",
    "shares": "checkpoint_shares.map_shares([1, 2], hang)",
    "batches": "[*checkpoint_shares._read_ahead(batches())]",
}


@pytest.mark.slow
@pytest.mark.parametrize("read", READS)
def test_interrupt_ends_a_process_whose_storage_does_not_respond(read: str) -> None:
    ended = FORKS.run(HANGING_READ + READS[read])
    assert ended.stderr.splitlines()[-1] == "KeyboardInterrupt"


def test_first_error_in_the_order_of_items_is_raised() -> None:
    late = Event()

    def fail(number: int) -> None:
        if number == 1:
            late.wait(60)
        else:
            late.set()
        raise OSError(f"item {number}")

    with pytest.raises(OSError, match="item 1"):
        map_concurrently(fail, [1, 2])


def test_items_after_an_error_are_not_started() -> None:
    begun = list[int]()

    def fail(number: int) -> None:
        begun.append(number)
        time.sleep(0.05)
        raise OSError("no answer")

    with pytest.raises(OSError, match="no answer"):
        map_concurrently(fail, range(1000), at_once=2)
    assert len(begun) < 100


def test_at_most_some_reads_run_at_once_and_waiting_ones_can_be_cancelled() -> None:
    threads, end, begun = ReadThreads(2), Event(), list[int]()

    def read(number: int) -> int:
        begun.append(number)
        end.wait(60)
        return number

    futures = [threads.submit(partial(read, number)) for number in range(4)]
    while len(begun) < 2:
        time.sleep(0.01)
    threads.cancel()
    end.set()
    assert [future.result(60) for future in futures[:2]] == [0, 1]
    assert [future.cancelled() for future in futures] == [False, False, True, True]
    assert threads.submit(lambda: 5).result(60) == 5
    begun.clear()
    end.clear()
    again = [threads.submit(partial(read, number)) for number in range(6)]
    time.sleep(0.05)
    assert len(begun) <= 2  # also after threads have ended
    end.set()
    assert [future.result(60) for future in again] == list(range(6))


def test_error_of_a_read_is_raised_where_its_result_is_used() -> None:
    with pytest.raises(OSError, match="no answer"):
        ReadThreads(1).submit(Mock(side_effect=OSError("no answer"))).result(60)


class Client:
    """A client of Azure, as far as it is created again."""

    url, credential = "https://account", "key"

    def __init__(self, *given: object, **options: object) -> None:
        self.given = given, options


class Filesystem:
    """A filesystem of adlfs, as far as it is created again."""

    storage_args, storage_options = ("container",), {"account_name": "account"}

    def __init__(self, *args: object, **options: object) -> None:
        self.created_with = args, options
        self.service_client: Any = SimpleNamespace()
        self.do_connect()

    def do_connect(self) -> None:
        self.service_client = Client("of adlfs")


def test_filesystem_is_created_again_with_a_client_that_does_not_retry_and_does_not_wait_long() -> None:
    limited = without_azure_retries(Filesystem())
    assert limited.created_with == (("container",), {"account_name": "account"})
    options = {"credential": "key", "retry_total": 0, "connection_timeout": 10, "read_timeout": 10}
    assert limited.service_client.given == (("https://account",), options)
