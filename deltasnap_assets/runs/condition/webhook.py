"""Sends one message to a webhook. Its URL is a secret: no error, log record or repr shows it. Loads no Dagster."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from queue import Empty, Queue
from threading import Thread
from typing import Any

from deltasnap_core import DeltaSnapError

TIMEOUT_SECONDS = 10


class WebhookError(DeltaSnapError):
    """The webhook did not accept a message. reason: why, without its URL."""

    def __init__(self, *, reason: str) -> None:
        self.reason = reason
        super().__init__(f"The webhook of `alerts` did not accept a message: {reason}. The next tick sends it again.")


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """Follows no redirects: they turn the message into a GET without content, which may succeed."""

    def redirect_request(self, *_: Any, **__: Any) -> None:
        return None


def post_text(url: str, text: str, *, timeout: float = TIMEOUT_SECONDS) -> None:
    """Post a text as `{"text": ...}`. Errors: WebhookError, unless the answer has a status of 200 to 299."""
    content = json.dumps({"text": text}).encode()
    headers = {"Content-Type": "application/json; charset=utf-8", "User-Agent": "deltasnap"}
    request = urllib.request.Request(url, data=content, headers=headers, method="POST")
    problems: Queue[str | None] = Queue()
    # In a thread, because a timeout of urllib applies to each read: a slow answer could take minutes.
    Thread(target=lambda: problems.put(_problem(request, timeout)), daemon=True).start()
    try:
        reason = problems.get(timeout=timeout)
    except Empty:
        reason = f"it did not answer within {timeout:g} s"
    if reason is not None:
        raise WebhookError(reason=reason)  # outside of the handlers: no cause with the URL


def _problem(request: urllib.request.Request, timeout: float) -> str | None:
    """Return why the webhook did not accept a request; None: it did."""
    try:
        with urllib.request.build_opener(_NoRedirect).open(request, timeout=timeout):
            return None
    except urllib.error.HTTPError as error:
        error.close()
        return f"HTTP status {error.code}"
    except urllib.error.URLError as error:
        return f"it cannot be reached, {type(error.reason).__name__}"
    except Exception as error:  # noqa: BLE001  # including timeouts, and http.client's errors, which may contain the URL
        return f"it cannot be reached, {type(error).__name__}"
