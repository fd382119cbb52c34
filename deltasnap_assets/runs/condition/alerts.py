"""The sensor that reports new problems of tables, and their recovery, to services such as a chat."""

from __future__ import annotations

import hashlib
import json
import re
import time
from collections.abc import Mapping
from typing import Literal

import dagster as dg

from deltasnap_assets.quantities import counted
from deltasnap_assets.runs.condition.services import Tone, check_apprise, send, service_of
from deltasnap_assets.runs.fleet import asset_of, unfollowed_tables
from deltasnap_assets.runs.planning.names import asset_key
from deltasnap_assets.runs.stores import store_of
from deltasnap_assets.settings.config import Settings
from deltasnap_assets.settings.table_settings import ASSET_NAMES, TableSettings
from deltasnap_assets.texts import lines_joined, secrets_hidden, visible
from deltasnap_core import DeltaSnapError, Problem, ProblemKind
from deltasnap_core.support import (
    LastPolls,
    TableLevel,
    TableStatus,
    redacted,
    system_clock,
)

ALERTS_SENSOR = "deltasnap_alerts"

_EVERY_SECONDS = 60
_MAX_SECONDS = 30  # a tick may take a minute; the next one sends the remaining messages
_MAX_TEXT_LENGTH = 2000

_MARKUP = re.compile(r"<|(?<!\w)@")

Level = Literal["ok", "warn", "error"]

_LEVELS: Mapping[TableLevel, Level] = {
    TableLevel.BROKEN: "error",
    TableLevel.UNKNOWN: "warn",
    TableLevel.WARNED: "warn",
    TableLevel.STALE: "warn",
    TableLevel.HEALTHY: "ok",
}
_TONES: Mapping[Level, Tone] = {"ok": "success", "warn": "warning", "error": "failure"}
_WHAT = {
    TableLevel.BROKEN: "is broken",
    TableLevel.UNKNOWN: "was not checked recently",
    TableLevel.WARNED: "has a warning",
    TableLevel.STALE: "is stale",
}
_WITHOUT_CHECKS = (TableLevel.BROKEN, TableLevel.UNKNOWN)
"""The levels that count as one problem, regardless of the checks that found it."""
_FORGOTTEN_AFTER_MS = 24 * 60 * 60 * 1000
"""A problem that was gone for this long is reported again when it returns, even if the table was never healthy."""

Reported = Mapping[str, int | None]
"""The problems reported since a table was last healthy, and since when each is gone (ms since the epoch, or None).

A problem is a level of `_WITHOUT_CHECKS`, or a check that warns.
"""
Delivered = Mapping[str, Reported]
"""What was reported, by service, table and path: the cursor of the sensor."""
Condition = tuple[str, TableStatus]
"""The path of a table, and its condition."""


def alert_of(table: str, status: TableStatus, reported: Reported, settings: Settings, now_ms: int) -> str | None:
    """Return the message to send; None: no message.

    There is one message for each new problem, one when the table is healthy again, and none in between: a table that
    alternates between a warning and an error is reported twice, and again after a day without the error.
    """
    level = _LEVELS[status.level]
    if level == "ok":
        return _message(table, "has recovered", "It is healthy now.", settings) if reported else None
    gone_since = (reported.get(name, -_FORGOTTEN_AFTER_MS) for name in _problems(status))
    is_worse = any(since is not None and now_ms - since >= _FORGOTTEN_AFTER_MS for since in gone_since)
    if not is_worse or level not in settings.alerts.on:
        return None
    return _message(table, _WHAT[status.level], f"{status.reason} {status.advice}".strip(), settings)


def seen(status: TableStatus, reported: Reported, now_ms: int) -> Reported:
    """Return what was reported, with the problems that are gone now."""
    found, hides_checks = _problems(status), status.level in _WITHOUT_CHECKS

    def gone_since(name: str, since: int | None) -> int | None:
        if name in found:
            return None
        return since if hides_checks and name not in _WITHOUT_CHECKS else min(since or now_ms, now_ms)

    return {name: gone_since(name, since) for name, since in reported.items()}


def _problems(status: TableStatus) -> frozenset[str]:
    is_one = status.level in _WITHOUT_CHECKS or not status.checks
    return frozenset([status.level.value] if is_one else status.checks)


def _delivered(cursor: str | None) -> Delivered:
    """Return the value of a cursor. One that cannot be read is ignored: then all problems are reported again."""
    try:
        found = json.loads(cursor or "{}")
    except ValueError:
        found = None
    return found if isinstance(found, dict) else {}


def alerts_sensor(settings: Settings) -> dg.SensorDefinition:
    """Return the sensor `deltasnap_alerts`. It reads the store like the fleet, and no log.

    Its cursor has what each service accepted. If a service fails and nothing else changes, the tick fails. Dagster
    keeps no cursor of a failed tick, so a tick that sent messages to others succeeds. Each tick sends what remains.
    Errors: DeltaSnapError if Apprise is not installed.
    """
    check_apprise()

    @dg.sensor(
        name=settings.own_name(ALERTS_SENSOR),
        minimum_interval_seconds=_EVERY_SECONDS,
        default_status=dg.DefaultSensorStatus(settings.default_status.upper()),
        description="Reports new problems of tables, and their recovery, to the services of `alerts`.",
    )
    @secrets_hidden()
    def alerts(context: dg.SensorEvaluationContext) -> dg.SkipReason:
        before = _delivered(context.cursor)
        text, delivered, refused = send_alerts(settings, context.instance, before)
        if refused is not None and delivered == before:
            raise DeltaSnapError(refused)
        if refused is not None:
            context.log.error(refused)
        context.update_cursor(json.dumps(delivered))
        return dg.SkipReason(text)

    return alerts


def send_alerts(
    settings: Settings, instance: dg.DagsterInstance, before: Delivered
) -> tuple[str, Delivered, str | None]:
    """Send the pending messages to each service. Return what happened, and what is delivered now.

    The last value is why the first service that failed did not accept a message; None: none failed.
    If a service takes too long, the next tick sends the rest. Ticks start with different tables, so that messages that
    a service does not accept do not delay all others.
    Errors: StorageError.
    """
    urls, now = [each.get_secret_value() for each in settings.alerts.urls], system_clock()
    found = _conditions(settings, instance, now)
    current = {_key(name, path, url) for name, (path, _) in found.items() for url in urls}
    delivered = {key: reported for key, reported in before.items() if key in current}
    start = now // (_EVERY_SECONDS * 1000) % max(len(found), 1)
    names = [*found][start:] + [*found][:start]
    count, refused, is_late = 0, list[str](), False
    for place, url in enumerate(urls):
        service, ends_at = service_of(url), time.monotonic() + _MAX_SECONDS / len(urls)
        for name in names:
            path, status = found[name]
            key = _key(name, path, url)
            reported = before.get(key, {})
            alert, after = alert_of(name, status, reported, settings, now), seen(status, reported, now)
            if alert is not None:
                if time.monotonic() > ends_at:
                    is_late = True
                    break
                if (reason := send(service, alert, _TONES[_LEVELS[status.level]])) is not None:
                    refused.append(
                        f"`alerts.urls[{place}]` did not accept a message: {reason}. The next tick sends it again."
                    )
                    continue
                count += 1
                is_over = status.level is TableLevel.HEALTHY
                after = {} if is_over else {**after, **dict.fromkeys(_problems(status))}
            delivered[key] = after
    text = f"Sent {counted(count, 'message')}." if count else "No table has a new problem or has recovered."
    texts = [text, *(["The next tick sends the rest."] if is_late else []), *refused[:1]]
    delivered = {key: reported for key, reported in delivered.items() if reported}
    return " ".join(texts), delivered, next(iter(refused), None)


def _conditions(settings: Settings, instance: dg.DagsterInstance, now_ms: int) -> dict[str, Condition]:
    """Return the path and condition of each table, except of new ones: those have no new problem."""
    polls, tables = store_of(settings).polls, {table.name: table for table in settings.tables}
    paths = {name: table.place for name, table in tables.items()}
    found = dict[str, Condition]()
    for name, known in polls.statuses(list(paths), now_ms, paths).items():
        status = known or _of_a_lost_poll(instance, polls, tables[name])
        if status is not None:
            found[name] = paths[name], status
    others = unfollowed_tables(settings)
    return found | {name: (each.where.file or name, TableStatus.of(each)) for name, each in others.items()}


def _of_a_lost_poll(instance: dg.DagsterInstance, polls: LastPolls, table: TableSettings) -> TableStatus | None:
    """Return the condition of a table that has materializations, but no poll in the store; None: it is new."""
    asset = asset_key(table, ASSET_NAMES[0])
    if polls.read(table.name) is not None or not instance.fetch_materializations(asset, limit=1).records:
        return None
    return TableStatus.of(Problem.of(ProblemKind.LOST_STATUS))


def _key(table: str, path: str, url: str) -> str:
    """Return the key of what was reported of a table. A table of the same name elsewhere is another table."""
    return f"{table}/{_digest(redacted(path))}/{_digest(url)}"


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _message(table: str, what: str, text: str, settings: Settings) -> str:
    asset = asset_of(settings, table)
    link = "" if asset is None else f" {settings.alerts.ui}/assets/{asset}"
    return f"Table {_plain(table)} {what}. {_plain(text)}{link}"


def _plain(text: str) -> str:
    """Return a text from a log so that it cannot mention anybody in a chat, or hide a link."""
    return _MARKUP.sub(r"\g<0> ", visible(lines_joined(text), _MAX_TEXT_LENGTH))
