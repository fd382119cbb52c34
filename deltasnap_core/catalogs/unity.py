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
from deltasnap_core.log.listing.catalog_commits import NO_CATALOG, CatalogCommits, CatalogOptions
from deltasnap_core.protocol.log_files.file_names import (
    LOG_FOLDER,
    STAGED_COMMIT_FOLDER,
    LogFileKind,
    ParsedLogPath,
)
from deltasnap_core.protocol.table_features import CATALOG_MANAGED
from deltasnap_core.redaction import hide_secrets, learn_options, learn_url, redacted, safe_repr
from deltasnap_core.storage.log_store import FileStatus
from deltasnap_core.storage.retries import is_transient, retrying
from deltasnap_core.storage.temporary_options import TemporaryOptions
from deltasnap_core.storage.urls import join_url, to_url

_API = "/api/2.1/unity-catalog"
_EXAMPLE = "catalog.schema.table"
_TIMEOUT_SECONDS = (5, 15)
_LONGEST_PAUSE_SECONDS = 10.0
_MAX_SHOWN = 300
_FEATURE = "delta.feature."
_MAX_COMMITS = 100_000
_MAX_LONG = (1 << 63) - 1
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
        table_id, is_managed = info.get("table_id"), _is_catalog_managed(info)
        if found.location.startswith("file:") and not is_managed:
            return found
        if not isinstance(table_id, str) or not table_id:
            raise CatalogError(table=name, reason="the catalog gives no `table_id`, so it gives no credentials")
        options: Mapping[str, Any] = {}
        if not found.location.startswith("file:"):
            options = TemporaryOptions(lambda: self._credentials(name, table_id, found.location), self._clock)
        uri = str(info["storage_location"])
        commits = self._commits(name, table_id, uri) if is_managed else None
        if commits is not None:
            options = CatalogOptions(options, lambda: self._commits(name, table_id, uri) or NO_CATALOG)
        return replace(found, storage_options=options, commits=commits or NO_CATALOG)

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

    def _commits(self, name: str, table_id: str, uri: str) -> CatalogCommits | None:
        """Return the ratified commits that are not published yet; None: the catalog has no API for them.

        Each answer has some of them, in any order, from a version on.
        """
        found = dict[int, FileStatus]()
        while len(found) < _MAX_COMMITS:
            start = max(found, default=-1) + 1
            body = {"table_id": table_id, "table_uri": uri, "start_version": start}
            try:
                answer = self._request(name, "GET", "/delta/preview/commits", json=body)
                new, latest = _commits_of(answer, to_url(uri))
                is_last = latest in new or new.keys() <= found.keys()
                found |= new
                if is_last:
                    tail = tuple(found[version] for version in sorted(found))
                    return CatalogCommits(log_tail=tail, max_version=latest if latest >= 0 else None)
            except CatalogError as error:
                if getattr(error.__cause__, "status_code", None) in (404, 501):
                    return None
                raise
            except (KeyError, OverflowError, TypeError, ValueError) as error:
                reason = f"the catalog gives commits that cannot be used: {one_line(str(error))[:_MAX_SHOWN]}"
                raise CatalogError(table=name, reason=reason) from error
        raise CatalogError(table=name, reason=f"the catalog has more than {_MAX_COMMITS} unpublished commits")

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


def _is_catalog_managed(info: Mapping[str, Any]) -> bool:
    properties = info.get("properties")
    found = properties if isinstance(properties, dict) else {}
    return any(found.get(f"{_FEATURE}{feature}") == "supported" for feature in CATALOG_MANAGED)


def _commits_of(answer: Mapping[str, Any], table: str) -> tuple[dict[int, FileStatus], int]:
    """Return the commits of an answer by version, and the latest version. Errors: as `_commit`."""
    latest = answer["latest_table_version"]
    if not isinstance(latest, int):
        raise TypeError(f"expected a number as latest_table_version, found {latest!r}")
    return dict(_commit(row, table) for row in answer.get("commits") or []), latest


def _commit(row: Mapping[str, Any], table: str) -> tuple[int, FileStatus]:
    """Return version and file of a ratified commit.

    Errors: KeyError, OverflowError, TypeError, ValueError for another content.
    """
    version, size, time_ms = (int(row[key]) for key in ("version", "file_size", "file_modification_timestamp"))
    name = row["file_name"]
    parsed = ParsedLogPath.parse(name)
    if "/" in name or parsed is None or parsed.kind is not LogFileKind.STAGED_COMMIT or parsed.version != version:
        raise ValueError(f"expected the file of a staged commit of version {version}, found {name!r}")
    path = join_url(table, f"{LOG_FOLDER}/{STAGED_COMMIT_FOLDER}/{name}")
    if not all(0 <= number <= _MAX_LONG for number in (size, time_ms)):
        raise ValueError(f"expected size and time of {name}, found other numbers")
    return version, FileStatus(path=path, size=size, modification_time=time_ms)


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
