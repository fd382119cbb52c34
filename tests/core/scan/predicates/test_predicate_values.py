"""Constants of conditions that data skipping may use."""

from __future__ import annotations

import pytest
import sqlglot

from deltasnap_core.scan.predicates.predicate_values import value_of


@pytest.mark.parametrize(("digits", "is_exact"), [(34, True), (35, False)])
def test_negative_number_is_a_constant_only_with_the_digits_that_spark_keeps(digits: int, is_exact: bool) -> None:
    found = value_of(sqlglot.parse_one("-" + "9" * digits, read="spark"))
    assert (found is not None) == is_exact
