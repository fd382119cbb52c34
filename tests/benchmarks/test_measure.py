from __future__ import annotations

import gc
from functools import partial

import pytest

from benchmarks.measure import Aim, AnswersDifferError, Finding, Samples, Side, time_in_turn


@pytest.fixture(autouse=True)
def no_collection(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each timing collects garbage first, of which a full test run has much."""
    monkeypatch.setattr(gc, "collect", lambda: 0)


def test_sides_are_timed_alternately_with_changing_order() -> None:
    ran: list[str] = []
    sides = {name: Side(run=partial(ran.append, name)) for name in ("a", "b")}
    times = time_in_turn(sides, 2)
    assert ran == ["a", "b", "b", "a", "a", "b"]
    assert [len(samples.values) for samples in times.values()] == [2, 2]


def test_different_results_are_detected_before_timing() -> None:
    ran: list[int] = []

    def answer(value: int) -> Side[int]:
        def run() -> int:
            ran.append(value)
            return value

        return Side(run=run, answer=lambda result: result)

    with pytest.raises(AnswersDifferError, match="ours: 1"):
        time_in_turn({"ours": answer(1), "theirs": answer(2)}, 5)
    assert len(ran) == 2


@pytest.mark.parametrize(
    ("aim", "is_met"), [(Aim(0.5), True), (Aim(0.4), False), (Aim(2, is_ratio=False), True), (None, None)]
)
def test_aim_is_of_the_ratio_of_medians_or_of_our_median(aim: Aim | None, is_met: bool | None) -> None:
    finding = Finding(question="?", ours=Samples((1.0, 2.0, 9.0)), theirs=Samples((4.0, 4.0, 1.0)), aim=aim)
    assert finding.ratio == 0.5
    assert finding.ratio_of_minima == 1.0
    assert finding.is_met is is_met
