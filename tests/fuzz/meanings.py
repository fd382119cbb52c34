"""The effects that a mutation may have on the answers, and helpers for mutations."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from random import Random
from typing import Any

from tests.fuzz.made_tables import MadeTable


class Meaning(Enum):
    """The effect of a mutation on the meaning of a log.

    SAME: every answer is the oracle's. SAME_OR_ERROR: that, or a DeltaSnapError. ANY: answers agree, or are errors.
    """

    SAME = 0
    SAME_OR_ERROR = 1
    ANY = 2


@dataclass(frozen=True)
class Mutation:
    """A mutation of a table: in words, with the names of the changed files.

    vanishing: files that vanish during reading, each after this many files have been opened.
    kind: the name of the mutation.
    """

    meaning: Meaning
    text: str
    touched: frozenset[str]
    vanishing: Mapping[Path, int] = field(default_factory=dict)
    kind: str = ""


Mutate = Callable[[MadeTable, Random], Mutation | None]
COMMIT = re.compile(r"[0-9]{20}\.json")
CHECKPOINT = re.compile(r"[0-9]{20}\.checkpoint\..*|.*part.*\.parquet")
HINTS = re.compile(r"_last_checkpoint|.*\.crc|.*\.compacted\.json")


def made(meaning: Meaning, text: str, *files: Path, vanishing: Mapping[Path, int] | None = None) -> Mutation:
    """Return a mutation of some files."""
    return Mutation(meaning, text, frozenset(file.name for file in files), vanishing or {})


def pick(table: MadeTable, rng: Random, pattern: re.Pattern[str]) -> Path | None:
    """Choose one of the files with such a name; None: there is none."""
    files = [file for file in table.files() if pattern.fullmatch(file.name)]
    return rng.choice(files) if files else None


def rewrite(file: Path, content: bytes) -> None:
    """Rewrite a file and keep its modification time."""
    status = file.stat()
    file.write_bytes(content)
    os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns))


def meaning_of_loss(table: MadeTable, file: Path) -> Meaning:
    """Return the effect of a file that is missing or broken."""
    if HINTS.fullmatch(file.name):
        return Meaning.SAME
    return Meaning.SAME if CHECKPOINT.fullmatch(file.name) and table.first == 0 else Meaning.SAME_OR_ERROR


def actions_of(file: Path) -> list[Any]:
    """Return the objects of a file of JSON lines, except those that earlier mutations broke; at least one.

    An object that an earlier mutation put text after is whole.
    """
    found, decoder = [], json.JSONDecoder()
    for line in file.read_bytes().split(b"\n"):
        try:
            found.append(decoder.raw_decode(line.decode("utf-8-sig", "surrogatepass").lstrip())[0])
        except (ValueError, RecursionError):
            continue
    return [action for action in found if isinstance(action, dict)] or [{}]
