"""Sends one message to a webhook. Its URL is a secret: no error, log record or repr shows it. Loads no Dagster."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Iterator
from queue import Empty, Queue
from threading import Event, Thread
from typing import Any

from deltasnap_core import DeltaSnapError

TIMEOUT_SECONDS = 20
_GATEWAY_TIMEOUT = 504


class WebhookError(DeltaSnapError):
    """The webhook did not accept a message. reason: why, without its URL. may_have_arrived: it was sent completely."""

    def __init__(self, *, reason: str, may_have_arrived: bool = False) -> None:
        self.reason = reason
        self.may_have_arrived = may_have_arrived
        what, when = ("confirm", "A later tick") if may_have_arrived else ("accept", "The next tick")
        super().__init__(f"The webhook of `alerts` did not {what} a message: {reason}. {when} sends it again.")


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """Follows no redirects: they turn the message into a GET without content, which may succeed."""

    def redirect_request(self, *_: Any, **__: Any) -> None:
        return None


def post_text(url: str, text: str, *, timeout: float = TIMEOUT_SECONDS) -> None:
    """Post a text as `{"text": ...}`. Errors: WebhookError, unless the answer has a status of 200 to 299."""
    content, sent = json.dumps({"text": text}).encode(), Event()

    def body() -> Iterator[bytes]:
        yield content
        sent.set()

    headers = {
        "Content-Type": "application/json; charset=utf-8",
        "Content-Length": str(len(content)),
        "User-Agent": "deltasnap",
    }
    request = urllib.request.Request(url, data=body(), headers=headers, method="POST")
    problems: Queue[tuple[str, bool] | None] = Queue()
    # In a thread, because a timeout of urllib applies to each read: a slow answer could take minutes.
    Thread(target=lambda: problems.put(_problem(request, timeout)), daemon=True).start()
    try:
        problem = problems.get(timeout=timeout)
    except Empty:
        problem = _no_answer(timeout)
    if problem is not None:
        reason, is_rejected = problem
        # Outside of the handlers: no cause with the URL.
        raise WebhookError(reason=reason, may_have_arrived=sent.is_set() and not is_rejected)


def _no_answer(timeout: float) -> tuple[str, bool]:
    return f"it did not answer within {timeout:g} s", False


def _problem(request: urllib.request.Request, timeout: float) -> tuple[str, bool] | None:
    """Return why the webhook did not accept a request, and whether it rejected it; None: it accepted it."""
    try:
        with urllib.request.build_opener(_NoRedirect).open(request, timeout=timeout):
            return None
    except urllib.error.HTTPError as error:
        error.close()
        return f"HTTP status {error.code}", error.code != _GATEWAY_TIMEOUT
    except urllib.error.URLError as error:
        return f"it cannot be reached, {type(error.reason).__name__}", False
    except TimeoutError:  # of the last read, at the same time as that of the caller
        return _no_answer(timeout)
    except Exception as error:  # noqa: BLE001  # including http.client's errors, which may contain the URL
        return f"it cannot be reached, {type(error).__name__}", False
