"""Sends messages to services with Apprise, an extra. Their URLs are secrets: no error or log record shows them."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING, Literal

from deltasnap_core import DeltaSnapError
from deltasnap_core.support import how_to_install

if TYPE_CHECKING:
    from apprise import Apprise

Tone = Literal["success", "warning", "failure"]
"""The kinds of messages that services show in different colors."""

_LOGGERS = ("apprise", "urllib3.connectionpool", "urllib3.util.retry")
_STATUS = re.compile(r"error=(\d{3})\b")


def check_apprise() -> None:
    """Raise DeltaSnapError if Apprise is not installed."""
    if find_spec("apprise") is None:
        raise DeltaSnapError(f"The urls in `alerts` need the package apprise: {how_to_install('alerts')}.")


def service_of(url: str) -> Apprise | None:
    """Return the service at a URL; None: Apprise does not know such a URL."""
    from apprise import Apprise, AppriseAsset  # noqa: PLC0415  # an extra

    # A redirect turns a message into a request without content, which may succeed.
    service = Apprise(asset=AppriseAsset(app_id="deltasnap", async_mode=False, http_redirects=False))
    with _kept_off_logs():
        return service if service.add(url) else None


def send(service: Apprise | None, text: str, tone: Tone) -> str | None:
    """Send a text. Return why the service did not accept it; None: it accepted it."""
    if service is None:
        return "Apprise does not know this kind of URL"
    with _kept_off_logs() as records:
        is_sent = service.notify(body=text, body_format="text", notify_type=tone)
    if is_sent:
        return None
    status = next((found[1] for record in records if (found := _STATUS.search(record))), None)
    return "it cannot be reached or did not answer" if status is None else f"HTTP status {status}"


@contextmanager
def _kept_off_logs() -> Iterator[list[str]]:
    """Keep what Apprise and its HTTP client log off all logs: it contains parts of the URL. Yields Apprise's messages.

    Apprise sends in threads of its own, so records of other users of the client are lost meanwhile, too.
    """
    messages, loggers = list[str](), [logging.getLogger(name) for name in _LOGGERS]

    def kept(record: logging.LogRecord) -> bool:
        if record.name == _LOGGERS[0]:
            messages.append(record.getMessage())
        return False

    for logger in loggers:
        logger.addFilter(kept)
    try:
        yield messages
    finally:
        for logger in loggers:
            logger.removeFilter(kept)
