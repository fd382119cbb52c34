"""The result of a benchmark, and the timing of two sides: alternately, in one process, with a check of the results."""

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
"""Rounds in a warm session until per-file code is fully compiled, and most of the planning code."""


class AnswersDifferError(AssertionError):
    """The results of the two sides differ, so their times are not comparable."""


@dataclass(frozen=True, slots=True)
class Samples:
    """Several measurements of one quantity.

    cpu_seconds: of each measurement, on all cores, of this process and its children; empty: not measured.
    """

    values: tuple[float, ...]
    cpu_seconds: tuple[float, ...] = ()

    @property
    def minimum(self) -> float:
        """The minimum: the value with the least noise."""
        return min(self.values)

    @property
    def median(self) -> float:
        """The median."""
        return statistics.median(self.values)

    @property
    def median_cpu(self) -> float | None:
        """The median of the CPU seconds."""
        return statistics.median(self.cpu_seconds) if self.cpu_seconds else None

    def scaled(self, factor: float) -> Samples:
        """Return each value multiplied by a factor."""
        return Samples(tuple(value * factor for value in self.values))


@dataclass(frozen=True, slots=True)
class Aim:
    """The maximum for a finding: the ratio of the medians, or our median itself if `is_ratio` is False."""

    at_most: float
    is_ratio: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """The result of one benchmark.

    unit:  of the samples: s, ms, MiB, KiB. peer: the other side; None: there is none.
    parts: the parts of a measured time, in the same unit, in order.
    note:  information needed to interpret it.
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
        """Our median divided by theirs."""
        return None if self.theirs is None else self.ours.median / self.theirs.median

    @property
    def ratio_of_minima(self) -> float | None:
        """Our minimum divided by theirs: the more stable of the two ratios on a noisy machine."""
        return None if self.theirs is None else self.ours.minimum / self.theirs.minimum

    @property
    def ratio_of_cpu(self) -> float | None:
        """Our CPU seconds divided by theirs."""
        ours, theirs = self.ours.median_cpu, None if self.theirs is None else self.theirs.median_cpu
        return None if ours is None or not theirs else ours / theirs

    @property
    def is_met(self) -> bool | None:
        """Whether the target is met; None: there is no target."""
        if self.aim is None:
            return None
        found = self.ratio if self.aim.is_ratio else self.ours.median
        return found is not None and found <= self.aim.at_most

    def to_json(self) -> dict[str, Any]:
        """Return all fields, including the ratios."""
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
    """One of the sides that are timed.

    run:     the timed part. prepare: runs before it, each time. finish: runs after it.
    answer:  the content of the result, for comparison in the warm-up round.
    """

    run: Callable[[], R]
    prepare: Callable[[], object] = lambda: None
    answer: Callable[[R], object] | None = None
    finish: Callable[[R], object] = lambda _: None


def time_in_turn(sides: dict[str, Side[Any]], repeat: int, *, warm_ups: int = 1) -> dict[str, Samples]:
    """Time each side `repeat` times, in rounds. The sides run alternately, with a changing order.

    The first rounds warm up; the very first also compares the results.
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
    """Raise AnswersDifferError unless all answers are equal."""
    if any(answer != next(iter(answers.values())) for answer in answers.values()):
        raise AnswersDifferError("\n".join(f"{name}: {answer}" for name, answer in answers.items()))
