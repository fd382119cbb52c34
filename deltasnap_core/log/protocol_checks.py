"""Checks whether deltasnap supports the protocol of a version, so that a replay gives its state."""

from __future__ import annotations

from deltasnap_core.errors import ActionNotFoundError
from deltasnap_core.log.commits.commit_batch import CommitBatch
from deltasnap_core.log.loaded_log import LoadedLog
from deltasnap_core.log.non_file_actions import NonFileActions
from deltasnap_core.protocol.actions import Protocol
from deltasnap_core.protocol.table_features import (
    MANIFEST_COMMIT_ACTION,
    check_no_manifest_commit,
    check_readable,
    is_catalog_managed,
)
from deltasnap_core.redaction import logger_of, redacted

_log = logger_of(__name__)


def check_replayable(log: LoadedLog, *, path: str, validate_state: bool) -> None:
    """Raise an error unless a replay of the log gives the state of the version.

    validate_state: whether protocol and metadata must exist.
    Errors: UnsupportedProtocolError naming the features; ActionNotFoundError.
    """
    check_no_manifest_commits(log.batch, path)
    check_state(log.non_file, path=path, version=log.version, validate_state=validate_state)


def check_state(actions: NonFileActions, *, path: str, version: int, validate_state: bool = True) -> None:
    """Raise an error unless deltasnap supports the protocol of a version. Arguments and errors: as check_replayable."""
    if actions.protocol is not None:
        check_readable(actions.protocol, path=path, version=version)
    elif validate_state:
        raise ActionNotFoundError(action="protocol", version=version, path=path)
    if actions.metadata is None and validate_state:
        raise ActionNotFoundError(action="metadata", version=version, path=path)


def warn_of_catalog(protocol: Protocol | None, *, path: str, version: int) -> None:
    """Log a warning if the table is managed by a catalog and no catalog was queried.

    Source: PROTOCOL.md, Catalog-managed tables.
    """
    if is_catalog_managed(protocol):
        _log.warning(
            "The Delta table at %s is managed by a catalog: version %d comes from its published commits alone. "
            "Pass log_tail and max_catalog_version to include the commits that the catalog ratified.",
            redacted(path), version,
        )  # fmt: skip


def check_no_manifest_commits(batch: CommitBatch, path: str) -> None:
    """Raise UnsupportedProtocolError if a commit names a manifest instead of its actions."""
    lines = batch.lines_with(MANIFEST_COMMIT_ACTION)
    if lines.num_rows:
        version = lines["commit_version"][0].as_py()
        check_no_manifest_commit(frozenset({MANIFEST_COMMIT_ACTION}), path=path, version=version)
