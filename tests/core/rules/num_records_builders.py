"""Builders for the tests of num records."""

from __future__ import annotations

import json
from collections.abc import Mapping

from hypothesis import strategies as st

TEXTS: Mapping[str, int | None] = {
    '{"numRecords":7}': 7,
    '{"\\ud800":1,"numRecords":7}': 7,
    '{"numRecords":7,"minValues":{}}': 7,
    '{"numRecords":-7,"minValues":{}}': -7,
    '{"numRecords":9223372036854775807,"minValues":{}}': 2**63 - 1,
    '{"numRecords":9223372036854775808,"minValues":{}}': None,
    '{"numRecords": 7,"minValues":{}}': 7,
    '{"minValues":{"a":1},"numRecords":7}': 7,
    '{"numRecords":"7","minValues":{}}': 7,
    '{"numRecords":"a:5,b"}': None,
    '{"numRecords":"5,b"}': None,
    '{"numRecords":{"a":1,"b":2}}': None,
    '{"numRecords":[1],"numRecords":2}': 2,
    '{"numRecords":[\0001],"numRecords":2}': None,
    '{"numRecords":[x],"numRecords":2}': None,
    '{"numRecords":[1,2]}': None,
    '{"numRecords":null,"minValues":{}}': None,
    '{"minValues":{}}': None,
    "{": None,
    "": None,
    "null": None,
    '[{"numRecords":5}]': None,
    '{"numRecords":5': None,
    '{"numRecords":5} x': None,
    '{"numRecords":5}}': None,
    '{"numRecords":5},{"numRecords":6}': None,
    '{"numRecords":5},"x":6': None,
    '{"numRecords":5}],[{}': None,
    '{"numRecords":007}': None,
    '{"numRecords":+5}': None,
    '{"numRecords":+5,"a":1}': None,
    '{"numRecords":5\x00,"a":1}': None,
    '{"numRecords":5.0,"a":1}': None,
    '{"numRecords":1e5}': None,
    '{"numRecords":1e400}': None,
    '{"numRecords":true}': None,
    '{"numRecords":-0}': 0,
    '{"numRecords":-0,"numRecords":{a:1}}': None,
    '{"numRecords":1234567890123456789,"x":{a:1}}': None,
    '{"numRecords":1234567890123456789,"x":1}': 1234567890123456789,
    '{"numRecords":-999999999999999999,"x":1}': -999999999999999999,
    '{"numRecords":" +5 "}': 5,
    '{"numRecords":"5\\n"}': 5,
    '{"numRecords":"5\\u2028"}': None,
    '{"numRecords":"9223372036854775808"}': None,
    '{"numRecords":"00000000000000000000005","x":1}': None,
    '{"a":1,"numRecords":"\\u00005"}': None,
    '{"num\\u0052ecords":5}': 5,
    '{"NUMRECORDS":5}': None,
    "{'numRecords':5}": None,
    '{a:1,"numRecords":5}': None,
    '{"a":NaN,"numRecords":5}': None,
    '{"a":01,"numRecords":5}': None,
    '{"a":"\t","numRecords":5}': None,
    '{"a":"\\q","numRecords":5}': None,
    '{"a":1,"numRecords":5,}': None,
    '{"a":1,"numRecords":5\n}': 5,
    '{"a":"\\ud800","numRecords":5}': 5,
    '\ufeff{"numRecords":5}': None,
    '{"a":1,"numRecords":1,"numRecords":2}': 2,
    '{"numRecords":"5","numRecords":6,"a":1}': 6,
    '{"a":1,"numRecords":5,"numRecords":null}': None,
    '{"a":1,"numRecords":tru,"numRecords":5}': None,
    '{"numRecords":"5","a":{"numRecords":7}}': 5,
    f'{{"a":{"1" * 1001},"numRecords":5}}': 5,
    f'{{"a":{"1" * 5001},"numRecords":"5"}}': 5,
    f'{{"a":"{"v" * 60_000}","numRecords":5}}': 5,
    f'{{"{"k" * 50_000}":1,"numRecords":5}}': 5,
    f'{{"{"k" * 50_001}":1,"numRecords":5}}': None,
    f'{{"{"😀" * 25_000}":1,"numRecords":5}}': 5,
    f'{{"{"😀" * 25_001}":1,"numRecords":5}}': None,
    f'{{"{chr(92)}u0041{"k" * 49_999}":1,"numRecords":5}}': 5,
    f'{{"{chr(92)}u0041{"k" * 50_000}":1,"numRecords":5}}': None,
    f'{{"a":{"[" * 499}{"]" * 499},"numRecords":5}}': 5,
    f'{{"a":{"[" * 500}{"]" * 500},"numRecords":5}}': None,
}


def _objects(values: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    names = st.sampled_from(['"numRecords"', '"numRecords"', '"a"', '"num\\u0052ecords"', "'numRecords'", "numRecords"])
    fields = st.lists(st.tuples(names, st.sampled_from([":", ":", " : "]), values).map("".join), max_size=4)
    return fields.map(lambda texts: f"{{{','.join(texts)}}}")


def _cut(text: str, at: int, put: str) -> str:
    return text[: at % (len(text) + 1)] + put + text[at % (len(text) + 1) :]


_JSON = st.recursive(
    st.sampled_from(
        ["0", "-0", "5", "-7", "1e5", "5.0", "01", "tru", "true", "null", "NaN", '"5"', '" 5"', "'5'", '"\\u0035"']
    )
    | st.integers(-(2**65), 2**65).map(str)
    | st.text(max_size=4).map(json.dumps)
    | st.text(alphabet='\\"{}[],:\n\t5', max_size=3).map(lambda text: f'"{text}"'),
    lambda inner: st.lists(inner, max_size=3).map(lambda items: f"[{','.join(items)}]") | _objects(inner),
    max_leaves=6,
)


ODD_JSON = st.one_of(
    _objects(_JSON),
    st.builds(_cut, _objects(_JSON), st.integers(0, 200), st.sampled_from([*',:{}[]"5x \n\0\\', "\ufeff", "\u2028"])),
    st.tuples(_objects(_JSON), st.integers(0, 200)).map(lambda each: each[0][: each[1]]),
    st.tuples(_objects(_JSON), st.lists(st.sampled_from([",", "{}", "]", "[", "}", " "]), max_size=8)).map(
        lambda each: each[0] + "".join(each[1])
    ),
)
