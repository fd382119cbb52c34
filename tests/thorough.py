"""Parameters of which a standard test run uses some and a thorough run uses all."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest


def one_in(each: int, values: Iterable[Any]) -> list[Any]:
    """Return test parameters. The first of `each` is in every test run, the others are marked `thorough`."""
    return [
        pytest.param(value, marks=() if place % each == 0 else pytest.mark.thorough)
        for place, value in enumerate(values)
    ]
