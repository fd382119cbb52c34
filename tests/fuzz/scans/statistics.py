"""Statistics of a file in the form of other writers: never wrong, but coarser, older, odder, or missing."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime
from decimal import Decimal, localcontext
from random import Random
from typing import Any

import pyarrow as pa

Statistics = dict[str, Any]
_BOUNDS = ("minValues", "maxValues")


def random_statistics(rng: Random, statistics: Statistics, *, has_vector: bool) -> tuple[str | None, list[str]]:
    """Write statistics in another form. Return the text, and the changes."""
    if rng.random() < 0.1:
        return rng.choice([None, None, "", "{}", "null"]), ["no statistics"]
    changed: Statistics = json.loads(json.dumps(statistics))
    done = rng.sample(_CHANGES, rng.choice([0, 1, 1, 2]))
    if has_vector or _loosen in done:
        changed["tightBounds"] = False
    for change in done:
        change(rng, changed)
    text = json.dumps(changed, ensure_ascii=rng.random() < 0.5, indent=rng.choice([None, None, 1]))
    if not _is_encodable(text):
        text = json.dumps(changed)
    return text, [change.__name__.strip("_").replace("_", " ") for change in done]


def _leaves(node: dict[str, Any]) -> Iterator[tuple[dict[str, Any], str]]:
    for name, value in node.items():
        if isinstance(value, dict):
            yield from _leaves(value)
        else:
            yield node, name


def _drop_a_part(rng: Random, statistics: Statistics) -> None:
    statistics.pop(rng.choice(["numRecords", "minValues", "maxValues", "nullCount"]), None)


def _drop_some_values(rng: Random, statistics: Statistics) -> None:
    for part in (*_BOUNDS, "nullCount"):
        for node, name in list(_leaves(statistics.get(part, {}))):
            if rng.random() < 0.3:
                node[name] = None
                if rng.random() < 0.5:
                    del node[name]


def _loosen(rng: Random, statistics: Statistics) -> None:
    """Widen the bounds, as a writer without exact values may do with `tightBounds` false."""
    for part, by in (("minValues", -1), ("maxValues", 1)):
        for node, name in _leaves(statistics.get(part, {})):
            if type(node[name]) is int and abs(node[name]) < 100:
                node[name] += by
    for node, name in _leaves(statistics.get("nullCount", {})):
        if 0 < (node[name] or 0) < statistics.get("numRecords", 0):
            node[name] = rng.randint(1, statistics["numRecords"] - 1)


def _cut_texts(rng: Random, statistics: Statistics) -> None:
    """Truncate strings: the minimum is cut, the maximum is cut and then increased."""
    length = rng.choice([1, 5, 32])
    ending = rng.choice(["", "\x7f", "\U0010ffff"])
    for part in _BOUNDS:
        for node, name in _leaves(statistics.get(part, {})):
            if name in ("name", "b", "p_name") and isinstance(node[name], str) and len(node[name]) > length:
                cut = node[name][:length]
                if part == "minValues":
                    node[name] = cut
                elif ending != "\x7f" or node[name][length] < "\x7f":
                    node[name] = cut + ending


def _cut_within_characters(rng: Random, statistics: Statistics) -> None:
    """Cut strings after UTF-16 units, or bytes. Half of a character stays, or is replaced. Perhaps append another."""
    ending = rng.choice(["", "", "\ufffd", "\U0010ffff"])
    for part in _BOUNDS:
        for node, name in _leaves(statistics.get(part, {})):
            if name in ("name", "b", "p_name") and isinstance(node[name], str) and node[name]:
                node[name] = _cut(rng, node[name]) + (ending if part == "maxValues" else "")


def _cut(rng: Random, text: str) -> str:
    if rng.random() < 0.3:
        encoded = text.encode()
        return encoded[: rng.randint(1, len(encoded))].decode(errors="replace")
    units = text.encode("utf-16-le")
    cut = units[: 2 * rng.choice([rng.randint(1, len(units) // 2), 32])].decode("utf-16-le", "surrogatepass")
    if _is_encodable(cut) or rng.random() < 0.3:
        return cut
    return cut[:-1] + rng.choice(["?", "\ufffd"])


def _is_encodable(text: str) -> bool:
    return not any(0xD800 <= ord(character) < 0xE000 for character in text)


def _tell_nan(rng: Random, statistics: Statistics) -> None:
    """Write bounds as a writer may that orders NaN above all values: here for every column, even without NaN."""
    for node, name in _leaves(statistics.get("maxValues", {})):
        if name in ("x", "f"):
            node[name] = "NaN"


def _put_in_a_zone(rng: Random, statistics: Statistics) -> None:
    for part in _BOUNDS:
        for node, name in _leaves(statistics.get(part, {})):
            if name == "at" and isinstance(node[name], str) and node[name].startswith("20"):
                node[name] = node[name].replace("Z", "+00:00")


def _write_numbers_as_texts(rng: Random, statistics: Statistics) -> None:
    for part in _BOUNDS:
        for node, name in _leaves(statistics.get(part, {})):
            if isinstance(node[name], int | float) and not isinstance(node[name], bool):
                node[name] = str(node[name])


def _add_what_nobody_knows(rng: Random, statistics: Statistics) -> None:
    statistics["sketches"] = {"id": [1, 2]}
    statistics.setdefault("minValues", {})["items"] = None


_CHANGES: list[Callable[[Random, Statistics], None]] = [
    _drop_a_part, _drop_some_values, _loosen, _cut_texts, _cut_within_characters, _tell_nan, _put_in_a_zone,
    _write_numbers_as_texts, _add_what_nobody_knows,
]  # fmt: skip


def parsed_type(schema: pa.Schema) -> pa.DataType:
    """Return the type of `stats_parsed` for the columns of a schema."""
    bounds, counts = _bounds_type(schema, None), _bounds_type(schema, pa.int64())
    fields = [("numRecords", pa.int64()), ("minValues", bounds), ("maxValues", bounds), ("nullCount", counts)]
    return pa.struct([*fields, ("tightBounds", pa.bool_())])


def parsed_values(text: str | None, schema: pa.Schema) -> dict[str, Any] | None:
    """Return statistics as values of that type."""
    statistics = json.loads(text) if text else None
    if not statistics:
        return None
    parsed = {name: statistics.get(name) for name in ("numRecords", "tightBounds", "nullCount")}
    for part in _BOUNDS:
        parsed[part] = _typed(statistics[part], _bounds_type(schema, None)) if statistics.get(part) else None
    return parsed


def _bounds_type(fields: Any, count: pa.DataType | None) -> pa.DataType:
    found = []
    for field in fields:
        if pa.types.is_struct(field.type):
            found.append((field.name, _bounds_type(list(field.type), count)))
        elif count is not None:
            found.append((field.name, count))
        elif not (pa.types.is_binary(field.type) or pa.types.is_nested(field.type) or pa.types.is_boolean(field.type)):
            found.append((field.name, field.type))
    return pa.struct(found)


def _typed(value: Any, data_type: pa.DataType) -> Any:
    if value is None:
        return None
    if pa.types.is_struct(data_type):
        return {field.name: _typed(value.get(field.name), field.type) for field in data_type}
    if pa.types.is_timestamp(data_type):
        moment = datetime.fromisoformat(value)
        return moment.astimezone(UTC) if data_type.tz else moment
    if pa.types.is_date(data_type):
        return date.fromisoformat(value)
    if pa.types.is_decimal(data_type):
        return _decimal(value, data_type)
    if pa.types.is_string(data_type):
        return value.encode(errors="replace").decode()  # as Spark reads and writes half of a character
    return float(value) if pa.types.is_floating(data_type) else int(value)


def _decimal(value: Any, data_type: pa.DataType) -> Decimal | None:
    with localcontext() as context:
        context.prec = 60
        found = Decimal(str(value)).quantize(Decimal(1).scaleb(-data_type.scale))
    return found if len(found.as_tuple().digits) <= data_type.precision else None
