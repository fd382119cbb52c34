"""Lines of actions are parsed, skipped or rejected in the same way by every parser."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings, strategies as st

from deltasnap_core.errors import CorruptLogError
from deltasnap_core.log.commits import action_lines
from deltasnap_core.log.commits.action_lines import LINES_SCHEMA, _fields_of, decode_line, parse_fields, read_lines
from deltasnap_core.rules.totals.measures import MEASURED_ACTION
from tests.builders import add, commit_info, content, protocol, remove

PATH = "file:///t/_delta_log/00000000000000000007.json"
FILE = pa.struct([("path", pa.string()), ("size", pa.int64()), ("deletionVector", pa.struct([("offset", pa.int32())]))])
FIELDS = pa.schema([("add", FILE), ("remove", FILE)])


def lines_of(*lines: bytes) -> pa.Table:
    return read_lines(PATH, 7, b"\n".join(lines))


def files_of(lines: pa.Table) -> list[tuple[str, int | None]]:
    rows = parse_fields(lines.filter(pa.compute.is_valid(lines["action"])), FIELDS).to_pylist()
    return [(file["path"], file["size"]) for row in rows for file in (row["add"], row["remove"]) if file is not None]


@pytest.mark.parametrize(
    ("line", "action", "files"),
    [
        pytest.param(rb'{"\u0061dd":{"p\u0061th":"a","size":1}}', "add", [("a", 1)], id="escaped keys"),
        pytest.param(b' \t{ "add" :\t{"path":"a","size":1} } \r', "add", [("a", 1)], id="white space"),
        pytest.param(b'{"add":null,"remove":{"path":"a"}}', "remove", [("a", None)], id="null next to an action"),
        pytest.param(b'{"add":null}', None, [], id="null"),
        pytest.param(b"{}", None, [], id="nothing"),
        pytest.param(b'{"ADD":{"path":"x"},"add":{"PATH":"y","path":"a","size":1}}', "add", [("a", 1)], id="case"),
        pytest.param(b'{"add":{"path":"a","size":1e3}}', "add", [("a", 1000)], id="exponent"),
        pytest.param(b'{"add":{"path":"a","size":12.0}}', "add", [("a", 12)], id="no fraction"),
        pytest.param(b'{"add":{"path":"a","size":-0}}', "add", [("a", 0)], id="minus zero"),
        pytest.param(b'{"add":{"path":"a","size":9007199254740993}}', "add", [("a", 2**53 + 1)], id="2^53 + 1"),
        pytest.param(b'{"add":{"path":"a","size":9223372036854775807}}', "add", [("a", 2**63 - 1)], id="2^63 - 1"),
        pytest.param(b'{"add":{"path":"b","path":"a","size":1}}', "add", [("a", 1)], id="field twice"),
        pytest.param(b'{"add":{"path":"b"},"add":{"path":"a","size":1}}', "add", [("a", 1)], id="action twice"),
        pytest.param(b'{"add":{"path":"b","size":1},"add":null}', None, [], id="action twice, then null"),
        pytest.param(rb'{"add":{"path":"a\u0000\udbff\udfff","size":1}}', "add", [("a\0\U0010ffff", 1)], id="NUL"),
        pytest.param('{"add":{"path":"a\u2028","size":1}}'.encode(), "add", [("a\u2028", 1)], id="U+2028"),
        pytest.param(b'{"add":{"path":"} null, Inf","size":1}}', "add", [("} null, Inf", 1)], id="text like syntax"),
        pytest.param(
            b'{"add":{"path":"a","size":1,"x":1e999}}', "add", [("a", 1)], id="huge number in an unread field"
        ),
        pytest.param(b'{"commitInfo":{"add":{"path":"a"},"n":[1,"x",null]}}', "commitInfo", [], id="inner add"),
        pytest.param(b'{"checkpoint":{}}', "checkpoint", [], id="manifest commit"),
        pytest.param(b'{"foo":[1],"bar":{"add":1}}', None, [], id="unknown"),
        pytest.param(b'{"add":{"path":"a}x","size":1}}x', "add", [("a}x", 1)], id="x of old runtimes"),
        pytest.param(b'{"add":{"path":"b","path":"a","size":1}}x', "add", [("a", 1)], id="x after an unusual line"),
    ],
)
@pytest.mark.parametrize("neighbour", [b"", b'{"remove":{"path":"z","path":"z"}}'], ids=["alone", "among others"])
def test_clear_line_is_read(
    line: bytes, action: str | None, files: list[tuple[str, int | None]], neighbour: bytes
) -> None:
    lines = lines_of(line, neighbour)

    assert lines["action"][0].as_py() == action
    assert files_of(lines)[: len(files)] == files


def test_all_lines_around_an_unusual_one_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(action_lines, "_LINES_TO_READ_EXACTLY", 2)
    lines = [b'{"add":{"path":"%d","size":1}}' % number for number in range(9)]
    lines[4] = b'{"add":{"path":"x","path":"4","size":1}}'
    assert files_of(lines_of(*lines)) == [(str(number), 1) for number in range(9)]


@pytest.mark.parametrize("number", ["1e999", "-1e999"])
def test_a_line_with_a_number_beyond_a_double_can_be_decoded(number: str) -> None:
    (line,) = lines_of(b'{"metaData":{"id":"t","x":%s}}' % number.encode())["line"].to_pylist()
    assert decode_line(PATH, 1, line)["metaData"]["id"] == "t"


@pytest.mark.parametrize(
    "line",
    [
        pytest.param(b'{"add":{"path":"a","size":1}}{"add":{"path":"b","size":1}}', id="two objects"),
        pytest.param(b'{"add":{"path":"a","size":1}}\r{"add":{"path":"b","size":1}}', id="two objects, return"),
        pytest.param(b'{"add":{"path":"a","size":1},"remove":{"path":"b"}}', id="two actions"),
        pytest.param(b'{"commitInfo":{},"txn":{"appId":"a","version":1}}', id="two actions, none of files"),
        pytest.param(b'{"protocol":5}', id="inner value is not an object"),
        pytest.param(b"null", id="null, which ends Arrow's process"),
        pytest.param(b"{}null{}", id="null between objects"),
        pytest.param(b"{} null null\t{}", id="nulls between objects"),
        pytest.param(b"[]", id="array"),
        pytest.param(b'{"add":', id="half an object"),
        pytest.param(b'{"add":{"path":"a","size":1}} x', id="text after"),
        pytest.param(b'{"add":{"path":"a","size":1}}xx', id="two x"),
        pytest.param(b'{"add":{"path":"a","size":1}}x ', id="x and a blank"),
        pytest.param(b'{"add":{"path":"a","size":1}}x\r', id="x and a return"),
        pytest.param(b'{"add":{"path":"a","size":1}}X', id="X"),
        pytest.param(b'{"add":{"path":"a","size":1}}y', id="another letter"),
        pytest.param(b'{"add":{"path":"a","size":1}},', id="comma"),
        pytest.param(b'{"add":{"path":"a","size":1}}}', id="another bracket"),
        pytest.param(b'{"add":{"path":"a","size":1}}null', id="null after"),
        pytest.param(b'{"add":{"path":"a","size":1}x', id="x in place of a bracket"),
        pytest.param(b'{"add":{"path":"a}x', id="x at the end of an open text"),
        pytest.param(b"x", id="x alone"),
        pytest.param(b'\xef\xbb\xbf{"add":{"path":"a","size":1}}', id="byte order mark"),
        pytest.param(b'{"add":{"path":"a","size":1,"x":NaN}}', id="NaN in an unread field"),
        pytest.param(b'{"add":{"path":"a","size":1,"x":[1,-Infinity]}}', id="Infinity in an unread field"),
        pytest.param(b'{"add":{"path":"a","size":NaN}}', id="NaN"),
        pytest.param(b"{'add':{'path':'a','size':1}}", id="single quotes"),
        pytest.param(b'{"add":{"path":"a\tb","size":1}}', id="raw control character"),
        pytest.param(b'{"add":{"path":"a\0b","size":1}}', id="raw NUL"),
        pytest.param(b"\x0c", id="form feed"),
        pytest.param(b'{"add":{"path":"\xff","size":1}}', id="no UTF-8"),
        pytest.param(b'{"foo":"\xed\xa0\x80"}', id="surrogate as bytes"),
        pytest.param(rb'{"add":{"path":"\ud800","size":1}}', id="lone surrogate"),
        pytest.param(rb'{"foo":{"\uDC00":1}}', id="lone surrogate in an unread field"),
        pytest.param(rb'{"add":{"path":"\ud800","size":1,"stats":"\ud800"}}', id="lone surrogate in path and stats"),
        pytest.param(b'{"add":{"path":"a","size":9223372036854775808}}', id="2^63"),
        pytest.param(b'{"add":{"path":"a","size":9007199254740993.0}}', id="float beyond 2^53"),
        pytest.param(b'{"add":{"path":"a","size":1.5}}', id="fraction"),
        pytest.param(b'{"add":{"path":"a","size":"1"}}', id="text for a number"),
        pytest.param(b'{"add":{"path":1,"size":1}}', id="number for a text"),
        pytest.param(b'{"add":{"path":"a","size":1,"partitionValues":[]}}', id="array for a map"),
        pytest.param(b'{"remove":{"path":"a","deletionVector":{"offset":2147483648}}}', id="offset of 33 bits"),
        pytest.param(b'{"add":{"path":"a","size":1,"baseRowId":"1"}}', id="text for a row id"),
        pytest.param(b'{"add":{"path":"a","size":1,"defaultRowCommitVersion":"1"}}', id="text for a version"),
        pytest.param(b'{"add":{"path":"a","size":1,"clusteringProvider":1}}', id="number for a provider"),
        pytest.param(b'{"remove":{"path":null}}', id="no path"),
        pytest.param(b'{"foo":' + b"[" * 100_000 + b"]" * 100_000 + b"}", id="100,000 arrays"),
        pytest.param(b'{"add":' + b'{"a":' * 100_000 + b"1" + b"}" * 100_000 + b"}", id="100,000 objects"),
        pytest.param(b'{"commitInfo":{"a":' + b"[" * 600 + b"]" * 600 + b"}}", id="600 arrays"),
        pytest.param(b'{"foo":' + b"[" * 100_000, id="100,000 arrays left open"),
    ],
)
def test_an_ambiguous_line_is_rejected_with_file_and_line(line: bytes) -> None:
    with pytest.raises(CorruptLogError) as caught:
        lines_of(b'{"add":{"path":"z","size":1}}', b"", line, b'{"remove":{"path":"z"}}')

    assert (caught.value.path, caught.value.line) == (PATH, 3)


def test_an_object_over_two_lines_is_rejected_even_if_the_counts_of_objects_and_lines_match() -> None:
    with pytest.raises(CorruptLogError):
        lines_of(b'{"add":{"path":"a","size":1}}{"add":', b'{"path":"b","size":1}}')


def test_a_line_beyond_the_maximum_length_is_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(action_lines, "MAX_LINE_BYTES", 100)

    with pytest.raises(CorruptLogError, match="100 bytes") as caught:
        lines_of(b"{}", b'{"foo":"' + b"x" * 100 + b'"}')

    assert caught.value.line == 2


@pytest.mark.slow
def test_one_unusual_line_does_not_affect_other_lines() -> None:
    usual = content([protocol(), *(add(f"f{n}") for n in range(2000)), commit_info(note="a, Infinity")])
    unusual = b'{"add":{"size":1e1,"path":"last"}}'

    lines = read_lines(PATH, 7, usual + unusual)

    assert lines["line"].to_pylist()[:-1] == usual.decode().splitlines(keepends=True)
    assert lines["line_number"].to_pylist() == list(range(1, 2004))
    assert files_of(lines)[-1] == ("last", 10)


VECTOR_OF_FILE = {"storageType": "u", "pathOrInlineDv": "ab", "sizeInBytes": 1, "cardinality": 3}


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(add("x", deletionVector=VECTOR_OF_FILE), id="deletion vector"),
        pytest.param(add("x", tags={"a": "b"}), id="field"),
        pytest.param(add("x", partitionValues={"a": "b"}), id="partition column"),
        pytest.param(remove("x", deletionVector=VECTOR_OF_FILE), id="remove"),
        pytest.param(commit_info(), id="other action"),
    ],
)
def test_a_valid_line_is_read_the_same_alone_and_among_similar_lines(other: dict[str, Any]) -> None:
    alone = lines_of(content([other]).strip()).select(["line", "action", *MEASURED_ACTION.names])

    lines = read_lines(PATH, 7, content([*(add(f"f{n}") for n in range(99)), other, *map(add, "yz")]))

    assert lines.slice(99, 1).select(alone.column_names).to_pylist() == alone.to_pylist()


@pytest.mark.parametrize(
    "line",
    [
        pytest.param(b'{"add":{"path":"x","size":1,"baseRowId":"1"}}', id="text for a row id"),
        pytest.param(b'{"add":{"path":"x","size":1,"partitionValues":[]}}', id="array for a map"),
        pytest.param(b'{"add":{"path":"x","modificationTime":1}}', id="no size"),
        pytest.param(b'{"add":{"path":"x","size":1},"txn":{"appId":"a","version":1}}', id="two actions"),
    ],
)
def test_an_invalid_line_is_rejected_the_same_alone_and_among_similar_lines(line: bytes) -> None:
    alike = content([add("a")])

    with pytest.raises(CorruptLogError) as caught:
        read_lines(PATH, 7, alike * 19 + line + b"\n" + alike)

    assert caught.value.line == 20


# Any object in any spelling: both parsers return the same result.

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | TEXT,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(TEXT, inner, max_size=2),
    max_leaves=4,
)
LONG = st.integers(-(2**63), 2**63 - 1)
VECTOR = st.fixed_dictionaries(
    {"storageType": TEXT, "pathOrInlineDv": TEXT, "sizeInBytes": st.integers(0, 2**31 - 1), "cardinality": LONG},
    optional={"offset": st.none() | st.integers(0, 2**31 - 1)},
)
OPTIONAL: dict[str, st.SearchStrategy[Any]] = {
    "partitionValues": st.none() | st.dictionaries(TEXT, st.none() | TEXT, max_size=3),
    "dataChange": st.booleans(),
    "stats": st.none() | TEXT,
    "deletionVector": st.none() | VECTOR,
    "other": JSON,
}
ACTION = st.one_of(
    st.fixed_dictionaries({"path": TEXT, "size": LONG}, optional=OPTIONAL).map(lambda fields: ("add", fields)),
    st.fixed_dictionaries({"path": TEXT}, optional={**OPTIONAL, "deletionTimestamp": LONG}).map(
        lambda f: ("remove", f)
    ),
    st.dictionaries(TEXT, JSON, max_size=3).map(lambda fields: ("commitInfo", fields)),
    JSON.map(lambda value: ("unknown", value)),
)


@st.composite
def spelled(draw: st.DrawFn) -> tuple[str, Any, str]:
    name, fields = draw(ACTION)
    others = draw(
        st.lists(st.sampled_from(["add", "protocol", "zzz"]).filter(lambda other: other != name), unique=True)
    )
    pairs = draw(st.permutations([(name, fields), *((other, None) for other in others)]))
    return name, fields, _spelling(draw, dict(pairs))


def _spelling(draw: st.DrawFn, value: Any) -> str:
    blank = draw(st.sampled_from(["", "", " ", "\t", "\r "]))
    if isinstance(value, dict):
        keys = draw(st.permutations(list(value)))
        inner = f",{blank}".join(f"{_spelling(draw, key)}:{_spelling(draw, value[key])}" for key in keys)
        return f"{blank}{{{inner}}}{blank}"
    if isinstance(value, list):
        return f"[{blank}{','.join(_spelling(draw, item) for item in value)}]"
    if isinstance(value, str) and value and draw(st.booleans()):
        escaped = "".join(f"\\u{unit:04x}" for unit in memoryview(value.encode("utf-16-le")).cast("H"))
        return f'{blank}"{escaped}"'
    return blank + json.dumps(value, ensure_ascii=draw(st.booleans()))


@pytest.mark.slow
@settings(deadline=None, max_examples=25)
@given(st.lists(spelled(), min_size=1, max_size=4))
def test_fast_and_exact_parsers_agree_on_every_spelling(actions: list[tuple[str, Any, str]]) -> None:
    rows = [
        {"commit_version": 7, "line_number": number, "line": f"{text}\n", "action": None}
        for number, (_, _, text) in enumerate(actions, start=1)
    ]
    unread = pa.Table.from_pylist(rows, schema=LINES_SCHEMA)

    fast = action_lines.classify_lines({7: PATH}, unread)
    exact = action_lines._read_exactly({7: PATH}, unread)

    assert fast == exact
    assert fast["action"].to_pylist() == [None if name == "unknown" else name for name, _, _ in actions]
    for row, (name, fields, text) in zip(parse_fields(fast, FIELDS).to_pylist(), actions, strict=True):
        usual = action_lines._in_usual_form(PATH, 1, text)
        assert parse_fields(lines_of(usual.encode()), FIELDS).to_pylist()[0]["add"] == row["add"]
        if name in ("add", "remove"):
            assert (row[name]["path"], row[name]["size"]) == (fields["path"], fields.get("size"))


@given(
    blanks=st.lists(st.text(" \t\r\n", max_size=3).map(lambda text: text.replace(" ", " \n") * 20_000), max_size=3),
    first_line=st.integers(1, 9),
)
@settings(max_examples=20)
def test_mostly_blank_text_yields_its_lines_with_their_numbers(blanks: list[str], first_line: int) -> None:
    actions = [json.dumps(add(f"f{number}")) for number in range(len(blanks) + 1)]
    text = "\n".join([actions[0], *(f"{blank}\n{action}" for blank, action in zip(blanks, actions[1:], strict=True))])
    lines = read_lines("x.json", 0, text.encode(), first_line=first_line)
    every = text.split("\n")
    assert lines["line_number"].to_pylist() == [n for n, line in enumerate(every, first_line) if line.strip()]
    assert [line.strip() for line in lines["line"].to_pylist()] == actions


def test_empty_lines_are_ignored() -> None:
    assert action_lines.split_lines({0: "x.json"}, {0: b"\n" * (1 << 20)}).num_rows == 0


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b'{"add":5}', "add: expected an object, found 5"),
        (b'{"metaData":[1]}', "metaData: expected an object, found '[1]'"),
        (b'{"add":{"path":5}}', "add.path: expected a string, found 5"),
        (b'{"add":{"path":"a","size":"x"}}', "add.size: expected a 64-bit integer, found 'x'"),
        (
            b'{"add":{"path":"a","size":9223372036854775808}}',
            "add.size: expected a 64-bit integer, found 9223372036854",
        ),
        (b'{"remove":{"path":"a","deletionTimestamp":[]}}', "remove.deletionTimestamp: expected a 64-bit integer, f"),
        (b'{"txn":{"appId":"a","version":1},"commitInfo":{}}', "expected one action, found "),
        (
            b'{"remove":{"path":"a","dataChange":true,"extendedFileMetadata":5}}',
            "remove.extendedFileMetadata: expected a boolean, f",
        ),
    ],
)
def test_field_of_another_type_is_named_with_its_line_and_value(line: bytes, reason: str) -> None:
    with pytest.raises(CorruptLogError) as raised:
        lines_of(b'{"add":{"path":"a","size":1}}', line)
    assert (raised.value.path, raised.value.line) == (PATH, 2)
    assert raised.value.reason.startswith(reason)


def test_lines_of_file_actions_are_first_read_with_the_fields_of_the_first_and_the_last() -> None:
    found = _fields_of('{"add":{"path":"a","partitionValues":{"p":"1"}}}', '{"remove":{"path":"b","tags":{},"size":2}}')
    assert found is not None
    assert {field.name: str(field.type) for field in found} == {
        "add": "struct<path: string, size: int64, partitionValues: struct<p: string>>",
        "remove": "struct<path: string, tags: struct<>, size: int64>",
    }


@pytest.mark.parametrize(
    "line", ['{"add":{"other":1}}', '{"txn":{}}', "{", "[]", '{"add":5}', '{"add":{},"remove":{}}']
)
def test_other_lines_are_read_with_all_fields(line: str) -> None:
    assert _fields_of('{"add":{"path":"a"}}', line) is None


@pytest.mark.parametrize("half", [r"\ud83c", r"\udf3c", r"\ud83c\ud83c"])
@pytest.mark.parametrize("is_object", [False, True], ids=["text", "object"])
def test_half_of_a_character_in_statistics_is_escaped_in_their_text(half: str, is_object: bool) -> None:
    """A writer cut a bound there: the bound is unknown, and the line is sound."""
    stats = f'{{"maxValues":{{"s":"a{half}"}}}}'
    written = stats if is_object else json.dumps(stats).replace(r"\\ud", r"\ud")
    line = f'{{"add":{{"path":"a","partitionValues":{{}},"size":1,"modificationTime":1,"stats":{written}}}}}'
    found = json.loads(lines_of(line.encode())["line"][0].as_py())["add"]
    assert found["stats"] == stats
