"""A server with the part of Unity Catalog's REST API that reads tables, written from its public OpenAPI document."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

API = "/api/2.1/unity-catalog"
TOKEN = "unity-token-of-the-tests"
PAGE = 2


@dataclass
class UnityServer:
    """What the server knows, and what it was asked.

    tables:      by full name, as TableInfo. credentials: of each table, as TemporaryCredentials without a time.
    commits:     by table id, as DeltaGetCommitsResponse; at most PAGE are in an answer.
    expires_ms:  when the next credentials expire. refusals: answers of the next requests: status, headers, body.
    requests:    method, path and query of each request.
    """

    url: str = ""
    tables: dict[str, dict[str, Any]] = field(default_factory=dict)
    credentials: dict[str, Any] = field(default_factory=dict)
    commits: dict[str, dict[str, Any]] = field(default_factory=dict)
    expires_ms: int | None = None
    refusals: list[tuple[int, dict[str, str], Any]] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)

    def add(self, name: str, location: str | None, **info: Any) -> None:
        """Add a table: by default an external Delta table."""
        catalog, schema, table = name.split(".")
        self.tables[name] = {
            "catalog_name": catalog,
            "schema_name": schema,
            "name": table,
            "table_type": "EXTERNAL",
            "data_source_format": "DELTA",
            "table_id": f"id-of-{name}",
            **({} if location is None else {"storage_location": location}),
            **info,
        }

    def answer(self, method: str, path: str, query: dict[str, str], body: Any) -> tuple[int, Any]:
        """Return status and body of an answer."""
        match method, path.removeprefix(API).split("/")[1:]:
            case "GET", ["tables", name]:
                found = self.tables.get(name)
                return (404, _error("TABLE_NOT_FOUND", f"No table {name}.")) if found is None else (200, found)
            case "GET", ["tables"]:
                wanted = query["catalog_name"], query["schema_name"]
                rows = [row for row in self.tables.values() if (row["catalog_name"], row["schema_name"]) == wanted]
                return 200, _page("tables", rows, query)
            case "GET", ["schemas"]:
                rows = [row for row in self.tables.values() if row["catalog_name"] == query["catalog_name"]]
                names = sorted({row["schema_name"] for row in rows})
                return 200, _page("schemas", [{"name": name} for name in names], query)
            case "POST", ["temporary-table-credentials"] if body["operation"] == "READ":
                time = {} if self.expires_ms is None else {"expiration_time": self.expires_ms}
                return 200, {**self.credentials, **time}
            case "GET", ["delta", "preview", "commits"] if body["table_id"] in self.commits:
                known = self.commits[body["table_id"]]
                later = [commit for commit in known["commits"] if commit["version"] >= body["start_version"]]
                return 200, {**known, "commits": sorted(later, key=lambda commit: commit["version"])[:PAGE][::-1]}
        return 404, _error("ENDPOINT_NOT_FOUND", f"No API {method} {path}.")


def _error(code: str, message: str) -> dict[str, str]:
    return {"error_code": code, "message": message}


def _page(kind: str, rows: list[dict[str, Any]], query: dict[str, str]) -> dict[str, Any]:
    first = int(query.get("page_token", 0))
    following = {"next_page_token": str(first + PAGE)} if first + PAGE < len(rows) else {}
    return {kind: rows[first : first + PAGE], **following}


@contextmanager
def serve_unity() -> Iterator[UnityServer]:
    """Yield a server that is reached at its `url`, with the token TOKEN."""
    unity = UnityServer()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._serve("GET")

        def do_POST(self) -> None:
            self._serve("POST")

        def _serve(self, method: str) -> None:
            content = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            parts = urlsplit(self.path)
            query = {name: values[0] for name, values in parse_qs(parts.query).items()}
            unity.requests.append(f"{method} {self.path}")
            headers: dict[str, str] = {}
            if unity.refusals:
                status, headers, answer = unity.refusals.pop(0)
            elif self.headers.get("Authorization") != f"Bearer {TOKEN}":
                status, answer = 401, _error("UNAUTHENTICATED", "Invalid token.")
            else:
                status, answer = unity.answer(method, unquote(parts.path), query, json.loads(content or b"{}"))
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            body = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            """Log nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    unity.url = f"http://127.0.0.1:{server.server_port}"
    Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    yield unity
    server.shutdown()
    server.server_close()
