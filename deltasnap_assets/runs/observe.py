"""What is known of a table when a tick, a schedule or a user asks for it. `decide` sees only these values."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any

import dagster as dg

from deltasnap_assets.runs.condition.fault_texts import CANNOT_BE_LOADED, FAILED_RUN
from deltasnap_assets.runs.condition.taken_names import check_name
from deltasnap_assets.runs.memory import LOOKS, Look, key_of_table
from deltasnap_assets.runs.planning.data_version import last_data_change
from deltasnap_assets.runs.planning.known_table import known_of, last_observation
from deltasnap_assets.runs.planning.log_status import read_status, what_is_readable
from deltasnap_assets.runs.planning.names import CONDITION_TAG
from deltasnap_assets.runs.planning.plan import Known, Stored
from deltasnap_assets.runs.shared_store import unshared_store
from deltasnap_assets.runs.stores import log_of, store_of
from deltasnap_assets.runs.table_runs import MissedRun, TableRuns, failed_run
from deltasnap_assets.settings.config import Settings
from deltasnap_assets.settings.table_settings import TableSettings
from deltasnap_core import LogCursor, LogStatus, Problem, TableCondition
from deltasnap_core.support import LastPoll, once


class Asked(Enum):
    """Who asks. A tick waits for nobody and repeats nothing, the schedule retries, and a user waits for the answer."""

    TICK = "tick"
    SCHEDULE = "schedule"
    USER = "user"


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """The last observation of a table. failed_run: the id of the failed run that it shows."""

    has_fault: bool = False
    is_unloadable: bool = False
    failed_run: str | None = None

    @classmethod
    def of(cls, instance: dg.DagsterInstance, table: TableSettings) -> Page:
        """Return the page of a table, as Dagster has recorded it."""
        if (last := last_observation(instance, table)) is None:
            return cls()
        failed = last.metadata.get(FAILED_RUN)
        return cls(
            has_fault=CONDITION_TAG in last.tags,
            is_unloadable=CANNOT_BE_LOADED in last.metadata,
            failed_run=None if failed is None else str(failed.value),
        )


@dataclass(frozen=True, kw_only=True)
class Seen:
    """A table as it is seen now. Its parts are read on first use, and once: an idle tick needs few of them.

    cursor: the last commit that the sensor followed; None: none yet. runs: of a tick or the schedule.
    examined: the result of an examination of the log by the last step.
    failure: the failed run of this refresh. is_complete: whether this refresh has run all that was missing.
    """

    settings: Settings
    table: TableSettings
    instance: dg.DagsterInstance
    asked: Asked
    cursor: LogCursor | None = None
    runs: TableRuns = field(default_factory=TableRuns)
    examined: TableCondition | None = None
    failure: Problem | None = None
    is_complete: bool = False

    def given(self, **parts: Any) -> Seen:
        """Return this value with parts that are known already, and are not read."""
        vars(self).update(parts)
        return self

    def after_examination(self, condition: TableCondition) -> Seen:
        """Return the table after an examination of its log was recorded: its page and its document have changed."""
        kept = {name: vars(self)[name] for name in ("known", "news", "log", "missed") if name in vars(self)}
        return replace(self, examined=condition).given(**kept)

    def after_runs(self, *, is_complete: bool) -> Seen:
        """Return the table after runs, with the same log: another process may have added versions since it was read."""
        if is_complete:
            return replace(self, is_complete=True).given(log=self.log)
        known, latest = self._known(), self.status.latest
        known = replace(known, versions=tuple(version for version in known.versions if version <= latest))
        listing = self.status.listing
        stored = None if listing is None else what_is_readable(self.settings, self.table, listing)
        return replace(self).given(known=known, log=(self.status, stored))

    @once
    def news(self) -> LogStatus | None:
        """The new commits since the cursor: one small listing. None: there are none, or the table is not followed."""
        return None if self.cursor is None else log_of(self.table).new_commits(self.cursor)

    @once
    def page(self) -> Page:
        """What Dagster shows about the table."""
        return Page.of(self.instance, self.table)

    @once
    def known(self) -> Known:
        """What Dagster has recorded."""
        return self._known()

    def _known(self) -> Known:
        return known_of(self.instance, self.table, reads_failed=self.asked is not Asked.TICK)

    @once
    def document(self) -> LastPoll | None:
        """What the store has recorded about the table. Errors: those of `check_name`."""
        store = store_of(self.settings)
        document = store.polls.read(self.table.name)
        check_name(store, self.table, document)
        return document

    @once
    def log(self) -> tuple[LogStatus, Stored | None]:
        """The log, and the stored versions compared with it; None: a tick lists only new commits if nothing is missing.

        Errors: DeltaSnapError.
        """
        _ = self.document, self.known  # first: a version that another process adds in the meantime is not lost
        news = self.news
        if news is not None and not self.is_suspect and self._misses_only(news):
            return news, None
        status, stored = read_status(self.settings, self.table, examine=self.is_suspect)
        return (status if news is None else replace(status, is_fork=news.is_fork)), stored

    def _misses_only(self, news: LogStatus) -> bool:
        """Return whether new commits continue the log, and no earlier version is missing."""
        done, version = self.known.done, -1 if self.cursor is None else self.cursor.version
        is_complete = done.issuperset(self.known.versions) and done.isdisjoint(news.versions)
        return is_complete and min(news.versions) > version and not self.is_document_lost

    @once
    def data_change(self) -> int:
        """The last version that changes data, of those that can be loaded."""
        status, stored = self.log
        latest = max(status.versions, default=status.latest) if status.condition is not None else status.latest
        names = {} if stored is None else {name.version: name for name in stored.common.names}
        return last_data_change(self.settings, self.table, status.listing or log_of(self.table).list(), latest, names)

    @property
    def status(self) -> LogStatus:
        """The log, see `log`."""
        return self.log[0]

    @property
    def stored(self) -> Stored | None:
        """The stored versions, see `log`."""
        return self.log[1]

    @property
    def is_suspect(self) -> bool:
        """Whether commits are read for faults before versions are requested."""
        return self.page.has_fault or self.failed is not None

    @property
    def is_document_lost(self) -> bool:
        """Whether the document of the table is gone, or older than the versions that were followed: so is the store."""
        if self.cursor is None:
            return False
        latest = None if self.document is None else self.document.latest_version
        return self.document is None or (latest is not None and latest < self.cursor.version)

    @once
    def failed(self) -> Problem | None:
        """The failed run of the table; None: there is none. A tick reads it only if a run failed within a day."""
        if self.failure is not None:
            return self.failure
        if self.asked is Asked.TICK and self.runs.failed is None:
            return None
        return failed_run(self.instance, self.table)

    @once
    def missed(self) -> MissedRun | None:
        """The last run that left versions missing; None: there is none."""
        return MissedRun.of(self.instance, self.table, self.runs.silent)

    @once
    def unshared(self) -> str | None:
        """The message that runs store their versions elsewhere; None: there is no sign of that."""
        versions = None if "log" not in vars(self) or self.stored is None else self.stored.versions
        return unshared_store(self.instance, self.settings, self.table, self.document, versions)

    @once
    def look(self) -> Look | None:
        """The last look of a tick; None: there was none, or another run has failed since then."""
        look = LOOKS.get(key_of_table(self.settings, self.table))
        return look if look is not None and look.failed == self.failed_lately else None

    @property
    def failed_lately(self) -> tuple[str, str | None] | None:
        """The run that failed within a day, and the failed run on the page; None: none failed."""
        return None if self.runs.failed is None else (self.runs.failed, self.page.failed_run)
