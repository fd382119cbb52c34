"""Reads the `.crc` file of a version."""

from __future__ import annotations

from deltasnap_core.protocol.state.version_checksum import VersionChecksum
from deltasnap_core.redaction import logger_of, redacted
from deltasnap_core.storage.log_store import FileStatus, LogStore

_log = logger_of(__name__)

# The file may list every file of a small table. Reading a larger one costs more than reading the log itself.
_MAX_BYTES = 64 << 20


def read_checksum(store: LogStore, file: FileStatus | None) -> VersionChecksum | None:
    """Return the `.crc` file of a version, parsed; None: it is missing or not usable.

    It never stops a load. If the file is broken, too large or refused by the storage, it logs a warning and returns
    None.
    Source: PROTOCOL.md, Version Checksum File. Delta's `readChecksum`.
    """
    if file is None:
        return None
    try:
        if file.size > _MAX_BYTES:
            raise ValueError(f"expected {_MAX_BYTES} bytes at most, found {file.size}")
        return VersionChecksum.parse(store.read_bytes(file.path))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, RecursionError) as error:
        _log.warning("Version checksum %s is ignored, because it cannot be parsed: %s", redacted(file.path), error)
        return None
