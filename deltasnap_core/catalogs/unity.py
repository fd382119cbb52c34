"""Unity Catalog, of Databricks and the open-source server, through its REST API. Needs the extra `unity`."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from fnmatch import fnmatchcase
from importlib import import_module
from typing import Any
from urllib.parse import quote, urlsplit

from deltasnap_core.clock import Clock, system_clock
from deltasnap_core.distribution import how_to_install
from deltasnap_core.errors import CatalogError, one_line
from deltasnap_core.log.catalog import DELTA, CatalogTable, name_parts, not_delta
from deltasnap_core.redaction import hide_secrets, learn_options, learn_url, redacted, safe_repr
from deltasnap_core.storage.retries import is_transient, retrying
from deltasnap_core.storage.temporary_options import TemporaryOptions

_API = "/api/2.1/unity-catalog"
_EXAMPLE = "catalog.schema.table"
_TIMEOUT_SECONDS = (5, 15)
_LONGEST_PAUSE_SECONDS = 10.0
_MAX_SHOWN = 300
_UNLIMITED_MS = 10 * 60 * 1000
"""How long credentials count as valid if the answer does not say it."""
_ADVICE = {
    401: "the catalog does not accept the token",
    403: "the token has no permission for this",
    404: "the catalog has no such table",
    429: "the catalog has too many requests",
}


class _RefusedError(Exception):
    """The answer of the catalog is an error. status_code: of HTTP, which decides whether to retry."""

    def __init__(self, status_code: int, message: str) -> None:
        self.status_code = status_code
        known = _ADVICE.get(status_code, "the catalog answers with an error")
        super().__init__(f"{known} (HTTP {status_code}{f': {message}' if message else ''})")


@safe_repr
class UnityCatalog:
    """Catalogs, schemas and tables of Unity Catalog. Names are `catalog.schema.table`.

    For tables in a cloud storage, it gives credentials that can only read, which are replaced before they expire.
    """

    def __init__(
        self,
        host: str,
        token: str | None = None,
        *,
        clock: Clock = system_clock,
        pause: Callable[[float], None] = time.sleep,
    ) -> None:
        """Create a catalog; it is not reached yet.

        host:  `https://WORKSPACE.cloud.databricks.com`, or that of a server; `https://` may be left out.
        token: a personal access token or another bearer token; None: requests have none.
        Errors: ValueError for a host that is no HTTP URL.
        """
        url = (host if "://" in host else f"https://{host}").rstrip("/")
        if urlsplit(url).scheme not in ("http", "https") or not urlsplit(url).hostname:
            raise ValueError(f"Expected the host as https://..., found {redacted(host)!r}")
        learn_url(url)
        learn_options({"token": token})
        self._url, self._token = url.removesuffix(_API), token
        self._clock, self._pause = clock, pause

    def __repr__(self) -> str:
        return f"UnityCatalog({self._url!r})"

    def table(self, name: str) -> CatalogTable:
        """See Catalog. Tables, also managed ones, but no views."""
        name_parts(name, _EXAMPLE)
        info = self._get(name, f"/tables/{quote(name, safe='')}")
        if not is_delta(info):
            raise not_delta(name, _kind(info))
        found = CatalogTable.of(
            name, info.get("storage_location"), comment=info.get("comment"), owner=info.get("owner")
        )
        if found.location.startswith("file:"):
            return found
        table_id = info.get("table_id")
        if not isinstance(table_id, str) or not table_id:
            raise CatalogError(table=name, reason="the catalog gives no `table_id`, so it gives no credentials")
        options = TemporaryOptions(lambda: self._credentials(name, table_id, found.location), self._clock)
        return replace(found, storage_options=options)

    def tables(self, pattern: str) -> list[str]:
        """See Catalog. The catalog itself cannot be a pattern."""
        catalog, schema, table = name_parts(pattern, _EXAMPLE)
        schemas = [_name(each) for each in self._pages(pattern, "schemas", catalog_name=catalog)]
        return sorted(
            f"{catalog}.{each}.{_name(found)}"
            for each in schemas
            if fnmatchcase(each, schema)
            for found in self._pages(pattern, "tables", catalog_name=catalog, schema_name=each)
            if fnmatchcase(_name(found), table) and is_delta(found)
        )

    def _credentials(self, name: str, table_id: str, location: str) -> tuple[Mapping[str, Any], int]:
        """Return storage options with temporary credentials, and when they expire, in ms since the epoch."""
        body = {"table_id": table_id, "operation": "READ"}
        answer = self._request(name, "POST", "/temporary-table-credentials", json=body)
        expires = answer.get("expiration_time")
        until_ms = expires if isinstance(expires, int) else self._clock() + _UNLIMITED_MS
        return _options(name, answer, location), until_ms

    def _pages(self, name: str, kind: str, **parameters: str) -> Iterator[Mapping[str, Any]]:
        token: object = None
        seen = set[object]()
        while token not in seen:  # a token that comes again would never end
            seen.add(token)
            page = self._get(name, f"/{kind}", **parameters, **({"page_token": str(token)} if token else {}))
            rows = page.get(kind) or []
            yield from (row for row in rows if isinstance(row, dict)) if isinstance(rows, list) else ()
            if not (token := page.get("next_page_token")):
                return

    def _get(self, name: str, path: str, **parameters: str) -> Mapping[str, Any]:
        return self._request(name, "GET", path, params=parameters)

    def _request(self, name: str, method: str, path: str, **content: Any) -> Mapping[str, Any]:
        """Return the answer to a request, an object. Errors: CatalogError for the table or pattern `name`."""
        try:
            return retrying(lambda: self._answer(method, path, content), pause=self._pause)
        except ImportError as error:
            reason = f"requests cannot be imported: {how_to_install('unity')}"
            raise CatalogError(table=name, reason=reason) from error
        except _RefusedError as error:
            raise CatalogError(table=name, reason=str(error), is_transient=is_transient(error)) from hide_secrets(error)
        except OSError as error:  # also all errors of requests
            reason = f"the catalog at {self._url} cannot be reached: {one_line(str(error))[:_MAX_SHOWN]}"
            raise CatalogError(table=name, reason=reason, is_transient=is_transient(error)) from hide_secrets(error)

    def _answer(self, method: str, path: str, content: Mapping[str, Any]) -> Mapping[str, Any]:
        requests = import_module("requests")
        try:
            response = requests.request(
                method,
                f"{self._url}{_API}{path}",
                auth=self._authorized,  # a function: otherwise the file .netrc replaces the token
                timeout=_TIMEOUT_SECONDS,
                allow_redirects=False,  # the token is for this host
                **content,
            )
        except (requests.ConnectionError, requests.Timeout) as error:
            raise ConnectionError(redacted(str(error))) from hide_secrets(error)
        if response.status_code != 200:
            if seconds := _retry_after(response.headers.get("Retry-After")):
                self._pause(min(seconds, _LONGEST_PAUSE_SECONDS))
            raise _RefusedError(response.status_code, _message(response))
        try:
            answer = response.json()
        except ValueError:
            answer = None
        if not isinstance(answer, dict):
            raise OSError("the answer is not a JSON object")
        return answer

    def _authorized(self, request: Any) -> Any:
        if self._token:
            request.headers["Authorization"] = f"Bearer {self._token}"
        return request


def is_delta(info: Mapping[str, Any]) -> bool:
    """Return whether a table of Unity Catalog is a Delta table with a folder of its own."""
    return str(info.get("data_source_format")).lower() == DELTA and "VIEW" not in str(info.get("table_type"))


def _kind(info: Mapping[str, Any]) -> str:
    if "VIEW" in (kind := str(info.get("table_type"))):
        return f"a {kind.lower().replace('_', ' ')}"
    return f"a table of the format {str(info.get('data_source_format')).lower()}"


def _name(info: Mapping[str, Any]) -> str:
    name = info.get("name")
    return name if isinstance(name, str) else ""


def _options(name: str, answer: Mapping[str, Any], location: str) -> Mapping[str, Any]:
    """Return temporary credentials as options of the filesystem of a location."""
    match answer:
        case {"aws_temp_credentials": {"access_key_id": str(key), "secret_access_key": str(secret), **rest}}:
            token = rest.get("session_token")
            return {"key": key, "secret": secret, "token": token if isinstance(token, str) else None}
        case {"azure_user_delegation_sas": {"sas_token": str(sas)}}:
            account = (urlsplit(location).hostname or "").partition(".")[0]
            return {"account_name": account, "sas_token": sas}
        case {"gcp_oauth_token": {"oauth_token": str(token)}}:
            return {"token": _google_credentials(name, token)}
    kinds = ", ".join(sorted(key for key, value in answer.items() if isinstance(value, dict))) or "none"
    raise CatalogError(table=name, reason=f"the catalog gives no credentials that can be used, but {kinds}")


def _google_credentials(name: str, token: str) -> Any:
    learn_options({"token": token})
    try:
        return import_module("google.oauth2.credentials").Credentials(token)
    except ImportError as error:
        reason = f"google-auth cannot be imported: {how_to_install('gcs')}"
        raise CatalogError(table=name, reason=reason) from error


def _retry_after(text: str | None) -> float:
    return float(text) if text is not None and text.isdecimal() else 0.0


def _message(response: Any) -> str:
    try:
        answer = response.json()
    except ValueError:
        return ""
    message = answer.get("message") if isinstance(answer, dict) else None
    return one_line(message)[:_MAX_SHOWN] if isinstance(message, str) else ""
