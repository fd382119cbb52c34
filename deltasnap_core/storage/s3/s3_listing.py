"""Direct S3 requests: a file in one request, and a folder from a name on, without listing the files before it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from deltasnap_core.storage.file_info import to_ms
from deltasnap_core.storage.log_store import FileStatus
from deltasnap_core.storage.retries import retrying
from deltasnap_core.storage.storage_errors import storage_errors
from deltasnap_core.storage.urls import join_url

_DIRECTORY_BUCKET_SUFFIX = "--x-s3"  # directory buckets list in no order and do not support StartAfter


def is_s3(filesystem: Any) -> bool:
    """Return whether a filesystem is one of s3fs."""
    return hasattr(filesystem, "call_s3")


def lists_from_name(filesystem: Any, folder: str) -> bool:
    """Return whether `list_s3_from` can list the folder: a filesystem of s3fs, and not a directory bucket."""
    if not is_s3(filesystem):
        return False
    bucket, _, _ = filesystem.split_path(folder)
    return not bucket.endswith(_DIRECTORY_BUCKET_SUFFIX)


def s3_status(filesystem: Any, path: str, url: str) -> FileStatus:
    """Return the status of a file; see LogStore.status. Errors: FileNotFoundError.

    `info` of s3fs makes another listing for a missing file, because it could be a folder.
    """
    bucket, key, _ = filesystem.split_path(path)
    found = filesystem.call_s3("head_object", Bucket=bucket, Key=key, **filesystem.req_kw)
    return FileStatus(path=url, size=found["ContentLength"], modification_time=to_ms(found["LastModified"]))


def list_s3_from(filesystem: Any, folder: str, url: str, first: str) -> Iterator[FileStatus]:
    """Return the files of `folder` (whose URL is `url`) named `first` or later; see LogStore.list_from.

    Pages are fetched on demand, the first one at the call.
    """
    bucket, key, _ = filesystem.split_path(folder)
    prefix = f"{key}/" if key else ""
    page = partial(_page, filesystem, url, Bucket=bucket, Prefix=prefix, Delimiter="/")
    # StartAfter excludes the name itself. Without its last character, the name sorts right before it.
    first_page = page(StartAfter=prefix + first[:-1]) if first else page()
    if not _has_files(first_page) and not _has_files(page(MaxKeys=1)):
        raise FileNotFoundError(f"No such folder: {url}")
    return _statuses(first_page, page, prefix, url, first)


def _page(filesystem: Any, url: str, **request: Any) -> dict[str, Any]:
    with storage_errors(url):
        found: dict[str, Any] = retrying(partial(filesystem.call_s3, "list_objects_v2", **request))
    return found


def _statuses(
    listed: dict[str, Any], page: Callable[..., dict[str, Any]], prefix: str, url: str, first: str
) -> Iterator[FileStatus]:
    """Yield the files of a page that was listed, and of those after it."""
    while True:
        for entry in listed.get("Contents", ()):
            if (name := entry["Key"].removeprefix(prefix)) and name >= first:
                modified_at = to_ms(entry["LastModified"])
                yield FileStatus(path=join_url(url, name), size=entry["Size"], modification_time=modified_at)
        if not (token := listed.get("NextContinuationToken")):
            return
        listed = page(ContinuationToken=token)


def _has_files(page: dict[str, Any]) -> bool:
    return bool(page.get("Contents") or page.get("CommonPrefixes"))
