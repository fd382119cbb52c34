"""Reads and writes the JSON objects of a log with type checks."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, ItemsView, Mapping
from functools import cache
from typing import Any, TypeVar, cast

T = TypeVar("T")


class JsonFields:
    """The fields of one JSON object. Each method returns a field by name, after checking its type.

    An absent field and a null field are equal: methods named `optional_...` return None, all others raise ValueError. A
    value of another type raises ValueError naming the object and the field. Unknown fields are ignored.
    Source: PROTOCOL.md, Protocol Evolution.
    """

    __slots__ = ("_owner", "_values")

    def __init__(self, owner: str, values: object) -> None:
        if not isinstance(values, Mapping):
            raise ValueError(f"{owner}: expected an object, found {_shown(values)}")
        self._owner = owner
        self._values = values

    def string(self, name: str) -> str:
        return self._required(name, self.optional_string(name))

    def integer(self, name: str) -> int:
        return self._required(name, self.optional_integer(name))

    def short_integer(self, name: str) -> int:
        return self._required(name, self.optional_short_integer(name))

    def boolean(self, name: str) -> bool:
        return self._required(name, self.optional_boolean(name))

    def integers(self, name: str) -> tuple[int, ...]:
        return self.sequence(name, lambda value: self._checked(name, whole_number(value), int, "64-bit integers"))

    def optional_string(self, name: str) -> str | None:
        value = self._values.get(name)
        return None if value is None else self._checked(name, value, str, "a string")

    def optional_integer(self, name: str) -> int | None:
        value = whole_number(self._values.get(name))
        return None if value is None else self._checked(name, value, int, "a 64-bit integer")

    def optional_short_integer(self, name: str) -> int | None:
        value = self.optional_integer(name)
        if value is not None and not -(2**31) <= value < 2**31:
            raise self.wrong_type(name, value, "a 32-bit integer")
        return value

    def optional_boolean(self, name: str) -> bool | None:
        value = self._values.get(name)
        return None if value is None else self._checked(name, value, bool, "a boolean")

    def optional_strings(self, name: str) -> tuple[str, ...] | None:
        return self.optional_sequence(name, lambda value: self._checked(name, value, str, "strings"))

    def optional_string_map(self, name: str) -> dict[str, str | None] | None:
        """Return a map of strings. Other values become JSON text, as in Spark's JSON reader."""
        value = self._values.get(name)
        if value is None:
            return None
        if not (isinstance(value, Mapping) and all(isinstance(key, str) for key in value)):
            raise self.wrong_type(name, value, "an object")
        return texts(value)

    def optional_property_map(self, name: str) -> dict[str, str] | None:
        """Return a map of strings, as `optional_string_map`, without the keys whose value is null."""
        values = self.optional_string_map(name)
        return None if values is None else {key: value for key, value in values.items() if value is not None}

    def optional_object(self, name: str) -> Mapping[str, Any] | None:
        """Return an object unchanged, with any fields."""
        value = self._values.get(name)
        if value is not None and not isinstance(value, Mapping):
            raise self.wrong_type(name, value, "an object")
        return value

    def items(self) -> ItemsView[str, Any]:
        """Return every field, known or not, unchanged."""
        return self._values.items()

    def optional_record(self, name: str, parse: Callable[[Any], T]) -> T | None:
        value = self._values.get(name)
        return None if value is None else parse(value)

    def sequence(self, name: str, parse: Callable[[Any], T]) -> tuple[T, ...]:
        return self._required(name, self.optional_sequence(name, parse))

    def optional_sequence(self, name: str, parse: Callable[[Any], T]) -> tuple[T, ...] | None:
        value = self._values.get(name)
        if value is None:
            return None
        if not isinstance(value, list | tuple):
            raise self.wrong_type(name, value, "an array")
        return tuple(parse(item) for item in value)

    def wrong_type(self, name: str, value: object, expected: str) -> ValueError:
        return ValueError(f"{self._owner}.{name}: expected {expected}, found {_shown(value)}")

    def _required(self, name: str, value: T | None) -> T:
        if value is None:
            raise ValueError(f"{self._owner}.{name}: required, but absent or null")
        return value

    def _checked(self, name: str, value: object, kind: type[T], expected: str) -> T:
        if not is_json_kind(value, kind):
            raise self.wrong_type(name, value, expected)
        return cast(T, value)


class JsonRecord:
    """A dataclass for a JSON object: its fields are snake_case here and camelCase in JSON."""

    __slots__ = ()

    def to_json(self) -> dict[str, Any]:
        """Return the JSON object: values ready for `json.dumps`, without None fields."""
        names = (field.name for field in dataclasses.fields(self))  # type: ignore[arg-type]  # subclasses are dataclasses
        values = ((name, getattr(self, name)) for name in names)
        return {_camel_case(name): _to_json(value) for name, value in values if value is not None}


def json_text(value: object) -> str:
    """Return `value` as compact JSON."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def texts(values: Mapping[str, Any]) -> dict[str, str | None]:
    """Return values as strings: strings and nulls are kept, anything else becomes JSON text."""
    return {key: text if text is None or isinstance(text, str) else json_text(text) for key, text in values.items()}


def is_json_kind(value: object, kind: type) -> bool:
    """Return whether `value` is of `kind` in the log: a boolean is not a number, and an integer has at most 64 bits."""
    if kind is int:
        return isinstance(value, int) and not isinstance(value, bool) and -(2**63) <= value < 2**63
    return isinstance(value, kind)


def whole_number(value: Any) -> Any:
    """Return a number without a fraction, such as 12.0 or 1e3, as an integer; any other value unchanged.

    From 2^53 on, a float stands for several integers. It stays a float, which is the wrong type for an integer field.
    Source: RFC 8259, section 6, which does not distinguish 12.0 and 12; Jackson, which Delta uses, accepts both.
    """
    is_whole = isinstance(value, float) and value.is_integer() and abs(value) < 2**53
    return int(value) if is_whole else value


@cache
def _camel_case(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join(word.capitalize() for word in others)


def _to_json(value: Any) -> Any:
    if isinstance(value, int | str):  # first: histograms have hundreds of numbers
        return value
    if isinstance(value, JsonRecord):
        return value.to_json()
    if isinstance(value, tuple):
        return [_to_json(item) for item in value]
    return dict(value) if isinstance(value, Mapping) else value


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."
