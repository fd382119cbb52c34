"""Compares two runs of benchmarks: which ratios moved by more than the noise of both runs.

Only ratios are compared, because times depend on the machine as much as on the code.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks.report import number

SETTINGS = ("files", "commits", "cores", "use", "spark_config")
"""The settings that must be equal in both runs."""


class NotComparableError(ValueError):
    """Two runs that cannot be compared."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ratio:
    """The ratio of a finding, and its range over the rounds of a run. In a round, both sides are timed in turn."""

    median: float
    low: float
    high: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """The ratios of one question in two runs. benchmark: its name. before, after: None: that run does not have it."""

    benchmark: str
    question: str
    before: Ratio | None
    after: Ratio | None

    @property
    def is_beyond_noise(self) -> bool:
        """Whether the ranges of the two runs do not overlap."""
        if self.before is None or self.after is None:
            return False
        return self.after.low > self.before.high or self.after.high < self.before.low

    @property
    def verdict(self) -> str:
        """`slower`, `faster`, `same`, or `new` or `gone` if only one run has the question."""
        if self.before is None or self.after is None:
            return "gone" if self.after is None else "new"
        if not self.is_beyond_noise:
            return "same"
        return "slower" if self.after.median > self.before.median else "faster"


def moves(base: Mapping[str, Any], new: Mapping[str, Any]) -> list[Move]:
    """Return the ratios of two documents that `python -m benchmarks --json` wrote, in the order of the later one.

    Errors: NotComparableError if they are not such documents, or were measured with other settings.
    """
    try:
        before, after = dict(_ratios(base)), dict(_ratios(new))
        different = [name for name in SETTINGS if base[name] != new[name]]
    except (KeyError, TypeError, ZeroDivisionError) as error:
        raise NotComparableError(f"expected a file of `python -m benchmarks --json`: {error!r}") from error
    if different:
        differences = ", ".join(f"{name} {base[name]} and {new[name]}" for name in different)
        raise NotComparableError(f"expected the same settings in both runs, found {differences}")
    return [
        Move(benchmark=key[0], question=key[1], before=before.get(key), after=after.get(key))
        for key in dict.fromkeys([*after, *before])
    ]


def read_document(path: Path) -> dict[str, Any]:
    """Return the document in a file. Errors: NotComparableError."""
    try:
        document = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise NotComparableError(f"{path} cannot be read: {error}") from error
    if not isinstance(document, dict):
        raise NotComparableError(f"{path}: expected a file of `python -m benchmarks --json`")
    return document


def show_moves(console: Console, found: list[Move]) -> None:
    """Print the ratios of both runs."""
    table = Table("benchmark", title="Ratios, with their range over the rounds", title_justify="left")
    for column in ("before", "after", ""):
        table.add_column(column, justify="right")
    for move in found:
        table.add_row(f"{move.benchmark}: {move.question}", _text(move.before), _text(move.after), move.verdict)
    console.print(table)


def _text(ratio: Ratio | None) -> str:
    if ratio is None:
        return ""
    return f"{number(ratio.median)} ({number(ratio.low)} to {number(ratio.high)})"


def _ratios(document: Mapping[str, Any]) -> Iterator[tuple[tuple[str, str], Ratio]]:
    for benchmark in document["benchmarks"]:
        for finding in benchmark["found"]:
            if finding["theirs"] is None:
                continue
            rounds = list(zip(finding["ours"]["values"], finding["theirs"]["values"], strict=False))
            each = [ours / theirs for ours, theirs in rounds]
            ratio = Ratio(median=finding["ratio"], low=min(each), high=max(each))
            yield (benchmark["name"], finding["question"]), ratio
