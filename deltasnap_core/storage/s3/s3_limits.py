"""Limits of one request to S3: only `retries` repeats it, because retries of botocore and s3fs would multiply them."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from types import new_class
from typing import Any

S3_SCHEMES = ("s3://", "s3a://")

_READ_TIMEOUT_SECONDS = 10


def with_s3_limits(storage_options: Mapping[str, Any]) -> dict[str, Any]:
    """Return options of s3fs without retries of botocore, and with a timeout. Values in `config_kwargs` are kept."""
    limits = {"retries": {"max_attempts": 0}, "read_timeout": _READ_TIMEOUT_SECONDS}
    return {**storage_options, "config_kwargs": {**limits, **(storage_options.get("config_kwargs") or {})}}


def without_s3_retries(filesystem: Any) -> Any:
    """Return a filesystem of s3fs without retries, for which it has no option.

    It is another object: fsspec may share the given one with code outside of deltasnap.
    """
    kind: Any = type(filesystem)
    return _class_without_retries(kind)(**filesystem.storage_options)


@cache
def _class_without_retries(kind: Any) -> Any:
    if getattr(kind, "retries", 1) == 1:
        return kind
    return new_class(kind.__name__, (kind,), {}, lambda namespace: namespace.update(retries=1))
