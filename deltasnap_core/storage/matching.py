"""Lists the paths that a pattern matches."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from deltasnap_core.redaction import learn_options, learn_url
from deltasnap_core.storage.fsspec_log_store import filesystem_of
from deltasnap_core.storage.retries import retrying

_WILDCARD = re.compile(r"[*?\[]")


def matching_paths(pattern: str, storage_options: Mapping[str, Any]) -> list[str]:
    """Return the paths that a pattern (`*`, `?`, `[...]`) matches, ascending, without the scheme of a URL.

    Errors: NoFilesystemError; those of the filesystem, among them FileNotFoundError if `folder_of_pattern` does not
    exist. Temporary failures are retried.
    """
    learn_url(pattern)
    learn_options(storage_options)
    filesystem, path = filesystem_of(pattern, storage_options)

    def listed() -> list[str]:
        filesystem.invalidate_cache()  # fsspec shares filesystems, with their listings, within a process
        # `glob` ignores a folder that does not exist or cannot be listed.
        filesystem.ls(folder_of_pattern(path) or filesystem.root_marker, detail=False)
        return sorted(str(each) for each in filesystem.glob(path))

    return retrying(listed)


def folder_of_pattern(pattern: str) -> str:
    """Return the folder before the first wildcard."""
    return _WILDCARD.split(pattern, maxsplit=1)[0].rpartition("/")[0]
