from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks.comparison import NotComparableError, moves, read_document
from benchmarks.measure import Finding, Samples


def document(ours: tuple[float, ...], *, question: str = "q", peer: bool = True, files: int = 10) -> dict[str, Any]:
    theirs = Samples(tuple(2.0 for _ in ours)) if peer else None
    found = Finding(question=question, ours=Samples(ours), theirs=theirs).to_json()
    settings = {"files": files, "commits": 1, "cores": 2, "use": "auto", "spark_config": {}}
    benchmarks = [{"name": "cold_state", "found": [found]}]
    return json.loads(json.dumps({**settings, "benchmarks": benchmarks}))  # type: ignore[no-any-return]


@pytest.mark.parametrize(
    ("after", "verdict"),
    [
        ((1.0, 1.1, 1.2), "same"),
        ((1.2, 1.5, 1.6), "same"),
        ((1.3, 1.5, 1.6), "slower"),
        ((0.5, 0.6, 0.99), "faster"),
    ],
)
def test_ratio_moved_if_the_ranges_of_both_runs_do_not_overlap(after: tuple[float, ...], verdict: str) -> None:
    (move,) = moves(document((1.0, 1.1, 1.2)), document(after))
    assert move.verdict == verdict
    assert move.before is not None
    assert (move.before.low, move.before.median, move.before.high) == (0.5, 0.55, 0.6)


def test_benchmark_in_only_one_result_is_new_or_gone() -> None:
    found = moves(document((1.0,), question="old"), document((1.0,), question="new"))
    assert [(move.question, move.verdict) for move in found] == [("new", "new"), ("old", "gone")]


def test_times_without_a_counterpart_are_not_compared() -> None:
    assert moves(document((1.0,), peer=False), document((9.0,), peer=False)) == []


def test_runs_with_other_settings_are_not_compared() -> None:
    with pytest.raises(NotComparableError, match="files 10 and 20"):
        moves(document((1.0,)), document((1.0,), files=20))


def test_file_that_is_not_a_result_is_rejected(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text("{}")
    with pytest.raises(NotComparableError, match="--json"):
        moves(read_document(tmp_path / "a.json"), {})
    with pytest.raises(NotComparableError, match="cannot be read"):
        read_document(tmp_path / "b.json")
