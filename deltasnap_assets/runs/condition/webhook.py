"""Sends one message to a webhook. Its URL is a secret: no error, log record or repr shows it. Loads no Dagster."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from typing import Any

from deltasnap_core import DeltaSnapError

TIMEOUT_SECONDS = 10


class WebhookError(DeltaSnapError):
    """The webhook did not accept a message. reason: why, without its URL."""

    def __init__(self, *, reason: str) -> None:
        self.reason = reason
        super().__init__(f"The webhook of `alerts` did not accept a message: {reason}. It will be sent again.")


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """Follows no redirects: they turn the message into a GET without content, which may succeed."""

    def redirect_request(self, *_: Any, **__: Any) -> None:
        return None


def send(url: str, text: str, *, timeout: float = TIMEOUT_SECONDS) -> None:
    """Post a text as `{"text": ...}`. Errors: WebhookError, unless the answer has a status of 200 to 299."""
    content = json.dumps({"text": text}).encode()
    headers = {"Content-Type": "application/json; charset=utf-8", "User-Agent": "deltasnap"}
    request = urllib.request.Request(url, data=content, headers=headers, method="POST")
    try:
        with urllib.request.build_opener(_NoRedirect).open(request, timeout=timeout):
            return
    except urllib.error.HTTPError as error:
        error.close()
        reason = f"HTTP status {error.code}"
    except urllib.error.URLError as error:
        reason = f"it cannot be reached, {type(error.reason).__name__}"
    except (OSError, ValueError) as error:  # including timeouts and responses that are not HTTP
        reason = f"it cannot be reached, {type(error).__name__}"
    except Exception as error:  # noqa: BLE001  # http.client's errors may contain the URL
        reason = f"it cannot be reached, {type(error).__name__}"
    raise WebhookError(reason=reason)  # outside of the handlers: no cause with the URL
