"""Limits of one request to a storage: only `retries` repeats it.

Retries of botocore and s3fs would multiply them, and those of Azure's client last for minutes.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache, partialmethod
from types import new_class
from typing import Any

S3_SCHEMES = ("s3://", "s3a://")
AZURE_SCHEMES = ("az://", "abfs://", "abfss://")

_READ_TIMEOUT_SECONDS = 10
_AZURE_LIMITS = {"retry_total": 0, "connection_timeout": 10, "read_timeout": _READ_TIMEOUT_SECONDS}
"""Options of Azure's client. Timeouts in seconds."""


def with_s3_limits(storage_options: Mapping[str, Any]) -> dict[str, Any]:
    """Return options of s3fs without retries of botocore, and with a timeout. Values in `config_kwargs` are kept."""
    limits = {"retries": {"max_attempts": 0}, "read_timeout": _READ_TIMEOUT_SECONDS}
    return {**storage_options, "config_kwargs": {**limits, **(storage_options.get("config_kwargs") or {})}}


def without_s3_retries(filesystem: Any) -> Any:
    """Return a filesystem of s3fs without retries, for which it has no option.

    It is another object: fsspec may share the given one with code outside of deltasnap.
    """
    kind: Any = type(filesystem)
    return _s3_class(kind)(**filesystem.storage_options)


def without_azure_retries(filesystem: Any) -> Any:
    """Return a filesystem of adlfs without retries and with timeouts, for which it has no options.

    It is another object, as for S3.
    """
    kind: Any = type(filesystem)
    return _azure_class(kind)(*filesystem.storage_args, **filesystem.storage_options)


@cache
def _s3_class(kind: Any) -> Any:
    return kind if getattr(kind, "retries", 1) == 1 else _subclass(kind, retries=1)


@cache
def _azure_class(kind: Any) -> Any:
    return _subclass(kind, do_connect=partialmethod(_connect_to_azure, kind.do_connect))


def _subclass(kind: Any, **members: Any) -> Any:
    return new_class(kind.__name__, (kind,), {}, lambda namespace: namespace.update(members))


def _connect_to_azure(filesystem: Any, connect: Any) -> None:
    connect(filesystem)
    client = filesystem.service_client
    filesystem.service_client = type(client)(client.url, credential=client.credential, **_AZURE_LIMITS)
