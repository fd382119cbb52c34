"""An S3 server that counts requests, and temporarily fails some of them."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from threading import Lock
from typing import Any

_THROTTLED = b"<Error><Code>%s</Code><Message>Please reduce your request rate.</Message></Error>"
_DENIED = b"<Error><Code>AccessDenied</Code><Message>Access Denied</Message></Error>"


class FlakyS3:
    """A WSGI middleware: the first requests of each method and key fail.

    refusals:     the number of failures; 0: none. status and code: of the response.
    hang_seconds: wait this long instead of failing; the client has given up by then.
    """

    def __init__(self, app: Callable[..., Iterable[bytes]]) -> None:
        self._app = app
        self._lock = Lock()
        self.reset()

    def reset(
        self, *, refusals: int = 0, code: str = "SlowDown", status: str = "503 Slow Down", hang_seconds: float = 0
    ) -> None:
        """Reset the counts, and fail from now on as given."""
        self.refusals, self.code, self.status, self.hang_seconds = refusals, code, status, hang_seconds
        self.requested: Counter[tuple[str, str]] = Counter()
        self.refused = 0
        self.denies_access = False

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        query = environ.get("QUERY_STRING", "")
        listed = [part for part in query.split("&") if part.startswith(("prefix=", "continuation-token="))]
        request = (environ["REQUEST_METHOD"], environ["PATH_INFO"] + "".join(sorted(listed)))
        with self._lock:
            self.requested[request] += 1
            is_refused = self.requested[request] <= self.refusals
            self.refused += is_refused
        if self.denies_access:
            start_response("403 Forbidden", [("Content-Type", "application/xml")])
            return [] if request[0] == "HEAD" else [_DENIED]
        if is_refused and self.hang_seconds:
            time.sleep(self.hang_seconds)
        elif is_refused:
            environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
            start_response(self.status, [("Content-Type", "application/xml")])
            return [_THROTTLED % self.code.encode()]
        return self._app(environ, start_response)

    def count(self, method: str, text: str) -> int:
        """Return how many requests of a method had a key, or a prefix, that contains a text."""
        return sum(times for (requested, key), times in self.requested.items() if requested == method and text in key)


@contextmanager
def serve() -> Iterator[tuple[FlakyS3, str]]:
    """Serve the buckets of this process. Yields the application and its endpoint."""
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    assert server._server is not None
    flaky = FlakyS3(server._server.app)
    server._server.app = flaky
    yield flaky, f"http://{host}:{port}"
    server.stop()
