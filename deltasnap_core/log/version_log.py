"""The protocol, metadata, time, transactions and domains of one version, without a replay and without Spark."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Literal

from deltasnap_core.errors import (
    ActionNotFoundError,
    CorruptLogError,
    DeltaSnapError,
    DeltaTableNotFoundError,
    UnsupportedServerError,
)
from deltasnap_core.log.checksum_validation import read_checksum
from deltasnap_core.log.commits.commit_scan import read_commit_infos
from deltasnap_core.log.history.commit_timestamps import version_timestamps
from deltasnap_core.log.listing.catalog_commits import CatalogCommits, asks_catalog
from deltasnap_core.log.listing.log_listing import table_path
from deltasnap_core.log.listing.log_segment import LogSegment
from deltasnap_core.log.listing.log_segment_builder import LogSegmentBuilder
from deltasnap_core.log.loaded_log import LoadedLog, load_log
from deltasnap_core.log.non_file_actions import NonFileActions, newest_protocol_and_metadata
from deltasnap_core.log.protocol_checks import check_replayable, warn_of_catalog
from deltasnap_core.once import once
from deltasnap_core.protocol.actions import Metadata, Protocol, SetTransaction
from deltasnap_core.protocol.properties.table_config import (
    deleted_file_retention_ms,
    in_commit_timestamps_enabled,
    set_transaction_retention_ms,
)
from deltasnap_core.protocol.state.version_checksum import VersionChecksum
from deltasnap_core.protocol.table_features import check_readable, properties_in_force, table_properties


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class VersionLog:
    """The log of one version. Immutable; each part is read on demand and once. Threads may share it.

    Without `log`, these members come from the version's checksum if that has them, as in Delta: `protocol`, `metadata`,
    `timestamp`, `set_transactions`, `domains`, and what is derived from them. A checksum may be wrong. `read()` returns
    the same version as the log itself states it.
    `loaded` is the log without the file actions of the checkpoint. `replayable` is the same, after a check that the
    protocol is supported.
    Errors of any member: CorruptLogError and StorageError (both name the file), ActionNotFoundError.

    builder:        of the segment. If no catalog was queried for it, a catalog-managed table gets a warning.
    now_ms:         the current time (ms), used for expiry.
    known:          an earlier loaded log of the same table, whose data is reused.
    known_checksum: the version's checksum, if read already.
    log:            the loaded log, which then decides everything; None: not read.
    """

    builder: LogSegmentBuilder
    segment: LogSegment
    now_ms: int
    known: LoadedLog | None = None
    known_checksum: VersionChecksum | None = None
    validate_state: bool = True
    log: LoadedLog | None = None

    @once
    def checksum(self) -> VersionChecksum | None:
        """The parsed version checksum; None: there is none, or it cannot be parsed."""
        return self.known_checksum or read_checksum(self.builder.store, self.segment.checksum_file)

    @once
    def loaded(self) -> LoadedLog:
        """Return the loaded log: every commit, and the footers and non-file actions of the checkpoint."""
        loaded = self.log or load_log(self.builder, self.segment, self.known)
        object.__setattr__(self, "known", None)  # the new log has its reusable parts: free the rest
        return loaded

    def read(self) -> VersionLog:
        """Return the version as its log states it, without the checksum, which may be wrong.

        If the log cannot be read, return this value: members that need the log raise the error.
        """
        try:
            return self._as_read
        except DeltaSnapError:
            return self

    def without(self, error: CorruptLogError | UnsupportedServerError) -> VersionLog:
        """Return the version as its log states it without the checkpoint that a query could not read.

        Errors: as LoadedLog.without; the given error if the log was not loaded; those of `replayable`.
        """
        if not self.is_loaded:  # the error of loading it
            raise error
        found = self._with(self.loaded.without(error))
        _ = found.replayable
        return found

    @property
    def is_loaded(self) -> bool:
        """Whether `loaded` needs no more reads."""
        return self.log is not None or VersionLog.loaded.is_computed(self)

    @once
    def replayable(self) -> LoadedLog:
        """Return the loaded log, after checking that it can be replayed."""
        if self.log is None:
            try:
                return self._as_read.replayable
            except CorruptLogError:
                # The log of a newer protocol may look broken. Then the unsupported protocol is the error to report.
                self._check_protocol_alone()
                raise
        check_replayable(self.log, path=self.table_path, validate_state=self.validate_state)
        if not self.catalog.is_known and not asks_catalog(self.builder.store):
            warn_of_catalog(self.log.non_file.protocol, path=self.table_path, version=self.segment.version)
        return self.log

    @once
    def non_file(self) -> NonFileActions:
        """The non-file actions, without the transactions that have expired."""
        return self.replayable.non_file.without_expired_transactions(self.now_ms)

    @property
    def protocol(self) -> Protocol:
        """The protocol. Errors: ActionNotFoundError."""
        protocol = self.protocol_and_metadata[0]
        if protocol is None:
            raise self._not_found("protocol")
        return protocol

    @property
    def metadata(self) -> Metadata:
        """The metadata. Errors: ActionNotFoundError."""
        metadata = self.protocol_and_metadata[1]
        if metadata is None:
            raise self._not_found("metadata")
        return metadata

    @property
    def protocol_and_metadata(self) -> tuple[Protocol | None, Metadata | None]:
        """Protocol and metadata; None: the log has none."""
        checksum = self.hint
        if checksum is not None and checksum.protocol is not None and checksum.metadata is not None:
            return checksum.protocol, checksum.metadata
        try:
            return self.loaded.non_file.protocol, self.loaded.non_file.metadata
        except CorruptLogError:
            return self._found_newest_first

    @property
    def place_of_metadata(self) -> tuple[str, int | None]:
        """The file with the metadata in force, and its line; the log folder if the log cannot be read."""
        try:
            log = self.loaded
        except CorruptLogError:
            return self.segment.log_path, None
        lines = log.batch.lines_with("metaData")
        if lines.num_rows:
            version, number = (lines[name][-1].as_py() for name in ("commit_version", "line_number"))
            return {commit.version: commit.file.path for commit in log.batch.commits}[version], number
        return (self.segment.log_path if log.checkpoint is None else log.checkpoint.paths[0]), None

    @property
    def configuration(self) -> Mapping[str, str]:
        """The `properties_in_force`; empty without metadata."""
        return properties_in_force(*self.protocol_and_metadata)

    @property
    def properties(self) -> dict[str, str]:
        """The table's properties without `path`, its protocol versions, and `delta.feature.<name>` = `supported`."""
        return table_properties(self.protocol, self.metadata)

    @property
    def transactions(self) -> dict[str, int]:
        """The transaction version of each application that has not expired, by application id."""
        return {transaction.app_id: transaction.version for transaction in self.set_transactions}

    @property
    def catalog(self) -> CatalogCommits:
        """The commits of the catalog that the segment was built with."""
        return self.builder.catalog

    @property
    def version(self) -> int:
        """The version of the segment."""
        return self.segment.version

    @once
    def timestamp(self) -> int:
        """When the version was committed (ms): in-commit timestamp where enabled, otherwise modification time.

        Errors: CorruptLogError naming a commit without a required timestamp. See `version_timestamps`.
        """
        configuration, checksum = self.configuration, self.hint
        if (
            checksum is not None
            and checksum.in_commit_timestamp is not None
            and in_commit_timestamps_enabled(configuration)
        ):
            return checksum.in_commit_timestamp
        return version_timestamps(self.builder.store, [self.segment], lambda _: configuration)[self.version]

    @once
    def in_commit_timestamp(self) -> int | None:
        """The in-commit timestamp (ms) of the version; None: the commit has none, or no longer exists.

        Source: PROTOCOL.md, In-Commit Timestamps.
        """
        commit = self.segment.last_commit_file
        if commit is None:
            return None
        for _, info in read_commit_infos(self.builder.store, [commit]):
            return None if info is None else info.in_commit_timestamp
        return None

    @property
    def min_file_retention_timestamp(self) -> int:
        """Now minus `delta.deletedFileRetentionDuration` (ms). Tombstones of this time or before have expired."""
        return self.now_ms - deleted_file_retention_ms(self.configuration)

    @property
    def set_transactions(self) -> tuple[SetTransaction, ...]:
        """The newest transaction of each application that has not expired, ordered by application id."""
        checksum = self.hint
        # A checksum may list expired transactions: use it only if none can expire.
        keeps_all = set_transaction_retention_ms(self.configuration) is None
        if checksum is not None and checksum.set_transactions is not None and keeps_all:
            return tuple(sorted(checksum.set_transactions, key=lambda txn: txn.app_id))
        return tuple(txn for _, txn in sorted(self.non_file.transactions.items()))

    @property
    def domains(self) -> dict[str, str]:
        """The configuration of each domain that is not removed, by domain name."""
        checksum = self.hint
        if checksum is not None and checksum.domain_metadata is not None:
            return {domain.domain: domain.configuration for domain in checksum.domain_metadata if not domain.removed}
        return {name: domain.configuration for name, domain in sorted(self.non_file.domains.items())}

    @property
    def best_known(self) -> LoadedLog | None:
        """The log if it was read, or otherwise that of an earlier version; None: nothing was read."""
        return self.loaded if self.is_loaded else self.known

    @property
    def hint(self) -> VersionChecksum | None:
        """The checksum, which decides unless the log does; None: the log decides, or there is no checksum."""
        return None if self.log is not None else self.checksum

    @once
    def _as_read(self) -> VersionLog:
        return self if self.log is not None else self._with(self.loaded)

    def _with(self, log: LoadedLog) -> VersionLog:
        checksum = self.checksum if VersionLog.checksum.is_computed(self) else self.known_checksum
        return replace(self, log=log, known=None, known_checksum=checksum)

    @once
    def _found_newest_first(self) -> tuple[Protocol | None, Metadata | None]:
        # The damage may be in older files than the newest protocol and metadata.
        return newest_protocol_and_metadata(self.builder.store, self.segment)

    def _check_protocol_alone(self) -> None:
        with suppress(CorruptLogError):
            protocol = self.protocol_and_metadata[0]
            if protocol is not None:
                check_readable(protocol, path=self.table_path, version=self.segment.version)

    @property
    def table_path(self) -> str:
        """URL of the table's folder."""
        return table_path(self.segment.log_path)

    def _not_found(self, action: Literal["protocol", "metadata"]) -> DeltaSnapError:
        if self.segment.version < 0:
            return DeltaTableNotFoundError(path=self.table_path)
        return ActionNotFoundError(action=action, version=self.segment.version, path=self.table_path)
