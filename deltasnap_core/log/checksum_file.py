"""What the writer said of a version in its `.crc` file."""

from __future__ import annotations

import logging

from deltasnap_core.log.log_segment import LogSegment
from deltasnap_core.protocol.version_checksum import VersionChecksum
from deltasnap_core.storage.log_store import LogStore

_log = logging.getLogger(__name__)


def read_checksum(store: LogStore, segment: LogSegment) -> VersionChecksum | None:
    """Read the `.crc` file of a segment's version. None where there is none or, with a warning, where it is broken.

    Source: PROTOCOL.md, Version Checksum File.
    """
    if segment.checksum_file is None:
        return None
    path = segment.checksum_file.path
    try:
        return VersionChecksum.parse(store.read_bytes(path))
    except FileNotFoundError:
        return None
    except ValueError as error:
        _log.warning("Version checksum %s is ignored, it cannot be understood: %s", path, error)
        return None
