from __future__ import annotations

import pyarrow as pa
import pytest

from deltasnap_core.protocol.json_text import MAX_NESTING
from deltasnap_core.rules.texts.json_lines import are_safe, parse_lines, parse_texts

NUMBER = pa.schema([("a", pa.int64())])


def nested(levels: int) -> str:
    return '{"a":' + "[" * (levels - 1) + "]" * (levels - 1) + "}\n"


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ('{"a":1}\n', True),
        ('\t {"a":1} \r\n', True),
        ('"a"\n', False),
        ('{"a":1}x\n', False),
        ('~{"a":1}\n', False),
        (f'{{"a":"{"x" * 4 * MAX_NESTING}"}}\n', True),
        ('{"a":NaN}\n', False),
        ('{"a":1}null\n', False),
        (nested(MAX_NESTING), True),
        (nested(MAX_NESTING + 1), False),
    ],
    ids=[
        "an object",
        "blanks",
        "no object",
        "something after it",
        "something before it",
        "long",
        "not a number",
        "null after it",
        "deep",
        "too deep",
    ],
)
def test_arrow_reads_objects_that_are_not_too_deep(line: str, expected: bool) -> None:
    assert are_safe(pa.chunked_array([['{"b":2}\n', line]])) is expected


def test_texts_are_parsed_if_each_is_one_object() -> None:
    found = parse_texts(pa.array(['{"a":1}', '{"b":"x"}', '{"a":null}']), NUMBER)
    assert found is not None
    assert (found.schema, found["a"].to_pylist()) == (NUMBER, [1, None, None])
    for other in ('{"a":2}\n{"a":3}', '{"a":1}\n', "null", '{"a":"x"}', '{"a":1'):
        assert parse_texts(pa.array(['{"a":1}', other]), NUMBER) is None
    assert parse_texts(pa.array(["\n", '{"a":4}', "\n"]).slice(1, 1), NUMBER) == pa.table({"a": [4]})


def test_lines_with_other_fields_are_parsed_unless_all_must_be_known() -> None:
    lines = pa.chunked_array([['{"a":1,"b":2}\n'], ['{"a":3}\n']])
    assert parse_lines(lines, NUMBER, is_all=True) is None
    found = parse_lines(lines, NUMBER)
    assert found is not None
    assert found.to_pylist() == [{"a": 1}, {"a": 3}]
    assert parse_lines(pa.chunked_array([['{"a":1}\n{"a":2}\n']]), NUMBER) is None
