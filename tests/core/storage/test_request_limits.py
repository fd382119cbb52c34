"""`tests/azure` covers the limits with adlfs and an emulator."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from deltasnap_core.storage.request_limits import without_azure_retries


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
