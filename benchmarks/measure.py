"""What a benchmark finds, and how two sides are timed: in turn, in one process, after their answers were compared."""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any, Generic, TypeVar

from benchmarks.cpu import cpu_seconds

R = TypeVar("R")

WARM_UPS = 10
"""Rounds in a warm session until what runs for each file is compiled in full, and most of what plans it."""


class AnswersDifferError(AssertionError):
    """The two sides do not agree: there is nothing to time."""


@dataclass(frozen=True, slots=True)
class Samples:
    """One quantity, measured several times.

    cpu_seconds: what each time took of all cores, in this process and in those it started; empty: not measured.
    """

    values: tuple[float, ...]
    cpu_seconds: tuple[float, ...] = ()

    @property
    def minimum(self) -> float:
        """The least: what noise has added least to."""
        return min(self.values)

    @property
    def median(self) -> float:
        """The middle one."""
        return statistics.median(self.values)

    @property
    def median_cpu(self) -> float | None:
        """The middle of the CPU seconds."""
        return statistics.median(self.cpu_seconds) if self.cpu_seconds else None

    def scaled(self, factor: float) -> Samples:
        """Each value times a factor."""
        return Samples(tuple(value * factor for value in self.values))


@dataclass(frozen=True, slots=True)
class Aim:
    """What a finding should be at most: the ratio of the medians, or where `is_ratio` is False our median itself."""

    at_most: float
    is_ratio: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """The answer to one question.

    unit:  of the samples: s, ms, MiB, KiB. peer: what ours is compared with; None: with nothing.
    parts: what a measured time is made of, in the same unit, in order.
    note:  what a reader must know to judge it.
    """

    question: str
    ours: Samples
    unit: str = "s"
    theirs: Samples | None = None
    peer: str | None = None
    aim: Aim | None = None
    note: str = ""
    parts: dict[str, float] = field(default_factory=dict)

    @property
    def ratio(self) -> float | None:
        """Our median over theirs."""
        return None if self.theirs is None else self.ours.median / self.theirs.median

    @property
    def ratio_of_minima(self) -> float | None:
        """Our least over theirs: on a noisy machine the steadier of the two ratios."""
        return None if self.theirs is None else self.ours.minimum / self.theirs.minimum

    @property
    def ratio_of_cpu(self) -> float | None:
        """Our CPU seconds over theirs."""
        ours, theirs = self.ours.median_cpu, None if self.theirs is None else self.theirs.median_cpu
        return None if ours is None or not theirs else ours / theirs

    @property
    def is_met(self) -> bool | None:
        """Whether the aim is met; None: there is none."""
        if self.aim is None:
            return None
        found = self.ratio if self.aim.is_ratio else self.ours.median
        return found is not None and found <= self.aim.at_most

    def to_json(self) -> dict[str, Any]:
        """Everything, the ratios included."""
        derived = {
            "ratio": self.ratio,
            "ratio_of_minima": self.ratio_of_minima,
            "ratio_of_cpu": self.ratio_of_cpu,
            "is_met": self.is_met,
        }
        samples = {
            name: {"median": side.median, "min": side.minimum, "median_cpu": side.median_cpu}
            for name, side in (("ours", self.ours), ("theirs", self.theirs))
            if side is not None
        }
        return asdict(self) | {"summary": samples} | derived


@dataclass(frozen=True, slots=True, kw_only=True)
class Side(Generic[R]):
    """One of those that are timed.

    run:     what is timed. prepare: what comes before it, each time. finish: what comes after it.
    answer:  what the result says, to compare; asked for in the round that warms up.
    """

    run: Callable[[], R]
    prepare: Callable[[], object] = lambda: None
    answer: Callable[[R], object] | None = None
    finish: Callable[[R], object] = lambda _: None


def time_in_turn(sides: dict[str, Side[Any]], repeat: int, *, warm_ups: int = 1) -> dict[str, Samples]:
    """Time each side `repeat` times: one round after another, the sides in turn, which one first changing.

    The first rounds warm up; in the first of all, the answers are compared.
    Errors: AnswersDifferError.
    """
    seconds: dict[str, list[float]] = {name: [] for name in sides}
    cpu: dict[str, list[float]] = {name: [] for name in sides}
    for number in range(warm_ups + repeat):
        answers = {}
        for name in sorted(sides, reverse=number % 2 == 1):
            side = sides[name]
            side.prepare()
            gc.collect()
            spent, start = cpu_seconds(), time.perf_counter()
            result = side.run()
            elapsed, spent = time.perf_counter() - start, cpu_seconds() - spent
            if number >= warm_ups:
                seconds[name].append(elapsed)
                cpu[name].append(spent)
            elif number == 0 and side.answer is not None:
                answers[name] = side.answer(result)
            side.finish(result)
            del result
        compare(answers)
    return {name: Samples(tuple(values), tuple(cpu[name])) for name, values in seconds.items()}


def compare(answers: dict[str, object]) -> None:
    """Errors: AnswersDifferError unless all the answers are the same."""
    if any(answer != next(iter(answers.values())) for answer in answers.values()):
        raise AnswersDifferError("\n".join(f"{name}: {answer}" for name, answer in answers.items()))
