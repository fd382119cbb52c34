"""Removes credentials from texts. Every error, log record and `repr` uses this module.

It replaces credentials in URLs, and the known secrets of this process: those in its URLs and storage options, and in
environment variables with a secret name. A storage may repeat secrets in its own messages
(`Invalid bucket name "KEY:SECRET@lake"`), where no pattern finds them.
"""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache
from threading import Lock
from typing import Any, TypeVar
from urllib.parse import unquote

REDACTED = "*********(redacted)"

# The user part of a URL, up to the last @ before the path. For Azure's schemes, it is the name of a container.
# Bounded, and matched only at the start of a word, so that megabytes of text are searched in one pass.
_USER_INFO = re.compile(r"(?<![A-Za-z0-9])(?P<scheme>[A-Za-z][A-Za-z0-9+.-]{0,30})://(?P<user>[^/?#\s]{0,2000})@")
_CONTAINER_SCHEMES = ("abfs", "abfss", "wasb", "wasbs")
_PARAMETER = re.compile(r"(?P<before>[?&;#](?P<name>[^=&?;#/\s]{1,200})=)(?P<value>[^&;#\s'\"]+)")
# SAS tokens (sig), presigned URLs (X-Amz-Signature, -Credential, -Security-Token; X-Goog-...), keys and passwords.
_SECRETIVE = re.compile(r"(?i)key|token|secret|passw|passphrase|pwd|sig|credential|auth")
# Storage options without secrets, in the spelling of fsspec's filesystems, of boto and of Spark's connectors.
_HARMLESS = re.compile(
    r"(?i)^(?:.*(?:endpoint|region|timeout|retries|attempts|concurrency|max_|block_?size|cache|version|style|verify|ssl)"
    r".*|anon|access|account_name|project|profile|requester_pays|host|port|protocol|use_.*|default_.*|asynchronous|loop)$"
)
_IN_ENVIRONMENT = re.compile(r"(?i)secret|token|passw|passphrase|pwd$|credential|(?:^|_)sas(?:_|$)|key(?:_id)?$")
_SHORTEST, _SHORTEST_UNKNOWN, _SHORTEST_IN_ENVIRONMENT = 3, 6, 8
_SHORTEST_PATH = 16  # a shorter one may be a word of other texts
_WHOLE_WORD_BELOW = 8
_MAX_CAUSES = 20
_MAX_LEARNED = 10_000

C = TypeVar("C", bound=type)


def redacted(text: str) -> str:
    """Return a text for a message, a log or a name, with credentials replaced by stars.

    Credentials are the user part of a URL (`user:password@`), the values of parameters with a secret name, even if the
    name is percent-encoded, and the secrets of this process (`learn_url`, `learn_options`, environment). All other text
    is kept, so that the file can still be identified.
    """
    shown = _PARAMETER.sub(_parameter, _USER_INFO.sub(_user_info, text))
    for secret in _secrets(len(shown)):
        if secret in shown:
            shown = _occurrences(secret).sub(REDACTED, shown)
    return shown


def is_harmless_option(option: str, value: object) -> bool:
    """Return whether a storage option may be shown: it has a harmless name, and its value has no credentials."""
    if value is None or isinstance(value, bool):
        return True
    is_secretive = _SECRETIVE.search(option) is not None
    if not isinstance(value, str):
        return isinstance(value, int | float) and not is_secretive
    return _HARMLESS.match(option) is not None and not is_secretive and not any(_secrets_of_url(value))


def learn_url(url: str) -> None:
    """Add the credentials in a URL to the secrets of this process."""
    if "@" in url or "=" in url:
        _learn(_secrets_of_url(url))


def learn_options(options: Mapping[str, Any]) -> None:
    """Add the values of storage options, even nested ones, to the secrets of this process, except harmless ones."""
    _learn(_secrets_of_options(options))


def learn_secret(secret: str) -> None:
    """Add a text to the secrets of this process. For a URL, add its path and query too: some errors show only these."""
    path = secret.partition("://")[2].partition("/")[2]
    _learn([secret, path] if len(path) >= _SHORTEST_PATH else [secret])


def learn_settings(settings: Mapping[str, Any]) -> None:
    """Add the values of settings with secret names, such as Spark's, to the secrets of this process."""
    learn_options({name: value for name, value in settings.items() if _SECRETIVE.search(name)})


def hide_secrets(error: BaseException) -> BaseException:
    """Return an error after removing the credentials from its message and from those of its causes.

    It is the same object with the same data; only messages change. An error that makes its text from other objects,
    such as a URL, is replaced by a `HiddenError`. Raise another error from the result.
    """
    for each in reversed(list(_chain(error))):
        each.args = tuple(redacted(part) if isinstance(part, str) else part for part in each.args)
        if isinstance(each, OSError):
            for name in ("filename", "filename2", "strerror"):
                if isinstance(value := getattr(each, name, None), str):
                    setattr(each, name, redacted(value))
        for name in ("__context__", "__cause__"):  # setting the cause hides the context
            if (cause := getattr(each, name)) is not None and (shown := _shown_error(cause)) is not cause:
                setattr(each, name, shown)
    return _shown_error(error)


def logger_of(name: str) -> logging.Logger:
    """Return the logger of a module. Its records contain no credentials."""
    logger = logging.getLogger(name)
    logger.addFilter(_hide_in_record)  # the same filter is added only once
    return logger


def safe_repr(cls: C) -> C:
    """Return a class whose `repr` shows no credentials. A decorator, placed above `@dataclass`."""
    shown: Callable[[object], str] = vars(cls).get("__repr__", cls.__repr__)

    def safe(self: object) -> str:
        return redacted(shown(self))

    setattr(cls, "__repr__", safe)  # noqa: B010 - mypy refuses the assignment
    return cls


class HiddenError(Exception):
    """Replaces an error of another library whose text contains credentials."""


_learned: dict[str, None] = {}
"""Secrets in insertion order. If there are too many, the oldest are dropped."""
_learning = Lock()


def _learn(found: Iterable[str]) -> None:
    if new := [secret for secret in found if secret and secret not in _learned]:
        with _learning:
            _learned.update(dict.fromkeys(new))
            for oldest in list(_learned)[:-_MAX_LEARNED]:
                del _learned[oldest]


def _secrets(length: int) -> list[str]:
    """Return the secrets of this process, the longest first: one may be a part of another.

    length: of the text to search. For a shorter text than any secret of the environment, these are not read.
    """
    environment = _secrets_of_environment() if length >= _SHORTEST_IN_ENVIRONMENT else ()
    return sorted({*_learned, *environment}, key=len, reverse=True)


def _secrets_of_environment() -> Iterator[str]:
    for name in filter(_is_secret_name, os.environ):
        value = os.environ.get(name, "")
        if len(value) >= _SHORTEST_IN_ENVIRONMENT and not value.startswith(("/", "~", ".")):
            yield value


@lru_cache(maxsize=1024)  # every text that is redacted searches all names
def _is_secret_name(name: str) -> bool:
    return _IN_ENVIRONMENT.search(name) is not None


def _secrets_of_url(url: str) -> Iterator[str]:
    for match in _USER_INFO.finditer(url):
        if not _is_container(match):
            user = match["user"]
            yield from _spellings(user, *(user.split(":") if ":" in user else ()))
    for match in _PARAMETER.finditer(url):
        if _SECRETIVE.search(unquote(match["name"])):
            yield from _spellings(match["value"])


def _secrets_of_options(options: Mapping[str, Any]) -> Iterator[str]:
    for name, value in options.items():
        if isinstance(value, Mapping):
            yield from _secrets_of_options(value)
        elif isinstance(value, int) and len(str(value)) >= _SHORTEST_UNKNOWN and _SECRETIVE.search(str(name)):
            yield str(value)  # a password of digits, without quotes in a YAML file
        elif isinstance(value, str):
            shortest = _SHORTEST if _SECRETIVE.search(str(name)) else _SHORTEST_UNKNOWN
            if len(value) >= shortest and not is_harmless_option(str(name), value):
                yield value
            yield from _secrets_of_url(value)


def _spellings(*texts: str) -> Iterator[str]:
    for text in texts:
        yield from (spelling for spelling in {text, unquote(text)} if len(spelling) >= _SHORTEST)


def _occurrences(secret: str) -> re.Pattern[str]:
    escaped = re.escape(secret)
    is_short = len(secret) < _WHOLE_WORD_BELOW
    return re.compile(rf"(?<![A-Za-z0-9]){escaped}(?![A-Za-z0-9])" if is_short else escaped)


def _is_container(match: re.Match[str]) -> bool:
    return match["scheme"].lower() in _CONTAINER_SCHEMES and ":" not in match["user"]


def _user_info(match: re.Match[str]) -> str:
    return match[0] if _is_container(match) else f"{match['scheme']}://{REDACTED}@"


def _parameter(match: re.Match[str]) -> str:
    return f"{match['before']}{REDACTED}" if _SECRETIVE.search(unquote(match["name"])) else match[0]


def _hide_in_record(record: logging.LogRecord) -> bool:
    message = record.getMessage()
    shown = redacted(message)
    if shown != message:
        record.msg, record.args = shown, None
    if record.exc_info and record.exc_info[1] is not None:
        shown_error = hide_secrets(record.exc_info[1])
        record.exc_info = (type(shown_error), shown_error, shown_error.__traceback__)
    return True


def _shown_error(error: BaseException) -> BaseException:
    """Return an error, or a replacement with its redacted text if `hide_secrets` could not remove its credentials."""
    text = str(error)
    if redacted(text) == text and redacted(repr(error)) == repr(error):
        return error
    shown = HiddenError(f"{type(error).__name__}: {redacted(text)}").with_traceback(error.__traceback__)
    shown.__cause__, shown.__context__ = error.__cause__, error.__context__
    shown.__suppress_context__ = error.__suppress_context__
    return shown


def _chain(error: BaseException) -> Iterator[BaseException]:
    following: BaseException | None = error
    for _ in range(_MAX_CAUSES):  # causes may form a circle
        if following is None:
            return
        yield following
        following = following.__cause__ or following.__context__
