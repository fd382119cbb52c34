from __future__ import annotations

import pyarrow as pa
import pytest

from deltasnap_core.protocol.json_text import MAX_NESTING
from deltasnap_core.rules.texts.json_lines import are_safe


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
        (nested(MAX_NESTING), True),
        (nested(MAX_NESTING + 1), False),
    ],
    ids=["an object", "blanks", "no object", "something after it", "something before it", "long", "deep", "too deep"],
)
def test_arrow_reads_objects_that_are_not_too_deep(line: str, expected: bool) -> None:
    assert are_safe(pa.chunked_array([['{"b":2}\n', line]])) is expected
