"""Limits of one request to S3: only `retries` repeats it, because retries of botocore and s3fs would multiply them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

S3_SCHEMES = ("s3://", "s3a://")

_READ_TIMEOUT_SECONDS = 10


def with_s3_limits(storage_options: Mapping[str, Any]) -> dict[str, Any]:
    """Return options of s3fs without retries of botocore, and with a timeout. Values in `config_kwargs` are kept."""
    limits = {"retries": {"max_attempts": 0}, "read_timeout": _READ_TIMEOUT_SECONDS}
    return {**storage_options, "config_kwargs": {**limits, **storage_options.get("config_kwargs", {})}}


def limit_s3_retries(filesystem: Any) -> None:
    """Turn off the retries of a filesystem of s3fs, which has no option for them."""
    filesystem.retries = 1
