"""URLs as they may be shown: without the credentials that they carry."""

from __future__ import annotations

import re
from urllib.parse import unquote

REDACTED = "*********(redacted)"

# The user part of a URL, up to the last @ before the path. That of Azure's schemes names a container.
# Bounded, and only at the start of a word: a text of megabytes is looked through in one go.
_USER_INFO = re.compile(r"(?<![A-Za-z0-9])(?P<scheme>[A-Za-z][A-Za-z0-9+.-]{0,30})://(?P<user>[^/?#\s]{0,2000})@")
_CONTAINER_SCHEMES = ("abfs", "abfss", "wasb", "wasbs")
_PARAMETER = re.compile(r"(?P<before>[?&;#](?P<name>[^=&?;#/\s]{1,200})=)(?P<value>[^&;#\s'\"]+)")
# SAS tokens (sig), presigned URLs (X-Amz-Signature, -Credential, -Security-Token; X-Goog-...), keys and passwords.
_SECRETIVE = re.compile(r"(?i)key|token|secret|passw|passphrase|pwd|sig|credential|auth")


def redacted(text: str) -> str:
    """Return a URL, or a text with URLs in it, for a message, a log or a name: its credentials replaced by stars.

    That is what stands before the host (`user:password@`), and the values of parameters whose names tell of a secret,
    also where the names are percent-encoded. Everything else stays, so that the text still says which file is meant.
    """
    return _PARAMETER.sub(_parameter, _USER_INFO.sub(_user_info, text))


def _user_info(match: re.Match[str]) -> str:
    is_container = match["scheme"].lower() in _CONTAINER_SCHEMES and ":" not in match["user"]
    return match[0] if is_container else f"{match['scheme']}://{REDACTED}@"


def _parameter(match: re.Match[str]) -> str:
    return f"{match['before']}{REDACTED}" if _SECRETIVE.search(unquote(match["name"])) else match[0]
