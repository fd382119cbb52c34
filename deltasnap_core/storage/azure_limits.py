"""Limits of one request to Azure: only `retries` repeats it, because retries of Azure's client last for minutes."""

from __future__ import annotations

from collections.abc import MutableMapping
from functools import cache
from types import new_class
from typing import Any

AZURE_SCHEMES = ("az://", "abfs://", "abfss://")

_LIMITS = {"retry_total": 0, "connection_timeout": 10, "read_timeout": 10}
"""Options of Azure's client. Timeouts in seconds."""


def without_azure_retries(filesystem: Any) -> Any:
    """Return a filesystem of adlfs without retries and with timeouts, for which it has no options.

    It is another object: fsspec may share the given one with code outside of deltasnap.
    """
    kind: Any = type(filesystem)
    return _class_without_retries(kind)(*filesystem.storage_args, **filesystem.storage_options)


@cache
def _class_without_retries(kind: Any) -> Any:
    def do_connect(filesystem: Any) -> None:
        kind.do_connect(filesystem)
        client = filesystem.service_client
        filesystem.service_client = type(client)(client.url, credential=client.credential, **_LIMITS)

    def content(namespace: MutableMapping[str, Any]) -> None:
        namespace["do_connect"] = do_connect

    return new_class(kind.__name__, (kind,), {}, content)
