"""JsonRecord: a JSON object of a log or a store, declared as a dataclass, which Pydantic reads with type checks."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Mapping
from functools import cache, partial
from typing import Annotated, Any, ClassVar, Self, cast

from pydantic import BeforeValidator, ConfigDict, Strict, TypeAdapter, ValidationError, model_validator
from pydantic.alias_generators import to_camel
from pydantic_core import ErrorDetails, PydanticCustomError

_EXPECTED = {
    "string_type": "a string",
    "string_unicode": "a string that UTF-8 can encode",
    "bool_type": "a boolean",
    "tuple_type": "an array",
    "dict_type": "an object",
    "mapping_type": "an object",
    "model_attributes_type": "an object",
    "dataclass_type": "an object",
    "is_instance_of": "an object",
}
_CUSTOM = "expected"


def whole_number(value: Any) -> Any:
    """Return a number without a fraction, such as 12.0 or 1e3, as an integer; any other value unchanged.

    From 2^53 on, a float stands for several integers. It stays a float, which is the wrong type for an integer field.
    Source: RFC 8259, section 6, which does not distinguish 12.0 and 12; Jackson, which Delta uses, accepts both.
    """
    is_whole = isinstance(value, float) and value.is_integer() and abs(value) < 2**53
    return int(value) if is_whole else value


def is_json_kind(value: object, kind: type) -> bool:
    """Return whether `value` is of `kind` in the log: a boolean is not a number, and an integer has at most 64 bits."""
    if kind is int:
        return isinstance(value, int) and not isinstance(value, bool) and -(2**63) <= value < 2**63
    return isinstance(value, kind)


def json_text(value: object) -> str:
    """Return `value` as compact JSON."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def texts(values: Mapping[str, Any]) -> dict[str, str | None]:
    """Return values as strings: strings and nulls are kept, anything else becomes JSON text, as in Spark's reader."""
    return {key: text if text is None or isinstance(text, str) else json_text(text) for key, text in values.items()}


def _checked_integer(bits: int | None, value: object) -> object:
    value = whole_number(value)
    is_integer = isinstance(value, int) and not isinstance(value, bool)
    if not is_integer or (bits is not None and not -(2 ** (bits - 1)) <= cast(int, value) < 2 ** (bits - 1)):
        raise PydanticCustomError(_CUSTOM, "an integer" if bits is None else f"a {bits}-bit integer")
    return value


def _texts(values: object) -> object:
    is_map = isinstance(values, Mapping) and all(isinstance(key, str) for key in values)
    return texts(values) if is_map else values  # type: ignore[arg-type]  # a map


def _properties(values: object) -> object:
    found = _texts(values)
    return {k: v for k, v in found.items() if v is not None} if isinstance(found, Mapping) else found


Int = Annotated[int, BeforeValidator(partial(_checked_integer, 32))]
Long = Annotated[int, BeforeValidator(partial(_checked_integer, 64))]
BigInt = Annotated[int, BeforeValidator(partial(_checked_integer, None))]
"""A sum of 64-bit integers may exceed 64 bits."""
Flag = Annotated[bool, Strict()]
Texts = Annotated[Mapping[str, str | None], BeforeValidator(_texts)]
"""A map of strings. Other values become JSON text."""
Properties = Annotated[Mapping[str, str], BeforeValidator(_properties)]
"""A map of strings, as `Texts`, without the keys whose value is null."""


def _json_name(field: str) -> str:
    return to_camel(field.removesuffix("_ms"))


class JsonRecord:
    """A dataclass for a JSON object: its fields are snake_case here and camelCase in JSON, without the suffix `_ms`.

    An absent field and a null field are equal: a field with a default gets it, any other field is required. Unknown
    fields are ignored. Source: PROTOCOL.md, Protocol Evolution.
    """

    __slots__ = ()
    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(alias_generator=_json_name)
    json_name: ClassVar[str]
    """The name of the object in errors."""

    @classmethod
    def from_json(cls, values: object) -> Self:
        """Return the record of a decoded JSON object. Errors: ValueError naming the object and the field."""
        try:
            found: Self = _adapter_of(cls).validate_python(values)
        except ValidationError as error:
            raise ValueError(_problem(cls.json_name, error.errors(include_url=False)[0])) from None
        return found

    def to_json(self) -> dict[str, Any]:
        """Return the JSON object: values ready for `json.dumps`. None is left out where it is the default."""
        return {
            name: _to_json(value)
            for field, name, is_optional in _fields_of(type(self))
            if (value := getattr(self, field)) is not None or not is_optional
        }

    @model_validator(mode="before")
    @classmethod
    def _without_nulls(cls, values: object) -> object:
        if not isinstance(values, Mapping):
            return values
        required = {name for _, name, is_optional in _fields_of(cls) if not is_optional}
        return {name: value for name, value in values.items() if value is not None or name in required}


def _fields(cls: type) -> tuple[tuple[str, str, bool], ...]:
    """Return the fields of a dataclass, with their names in JSON, and whether each has a default."""
    missing = dataclasses.MISSING
    return tuple(
        (field.name, _json_name(field.name), field.default is not missing or field.default_factory is not missing)
        for field in dataclasses.fields(cls)
    )


_adapter_of: Callable[[type], TypeAdapter[Any]] = cache(TypeAdapter)
_fields_of: Callable[[type], tuple[tuple[str, str, bool], ...]] = cache(_fields)


def _problem(owner: str, error: ErrorDetails) -> str:
    """Return the first problem of an object, such as `add.size: expected a 64-bit integer, found 'x'`."""
    if error["type"] == "value_error":
        return str(error["ctx"]["error"])  # raised by the record itself
    place = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in error["loc"])
    if error["type"] == "missing" or (error["input"] is None and place):
        return f"{owner}{place}: required, but absent or null"
    expected = error["msg"] if error["type"] == _CUSTOM else _EXPECTED.get(error["type"], error["msg"])
    return f"{owner}{place}: expected {expected}, found {_shown(error['input'])}"


def _to_json(value: Any) -> Any:
    if isinstance(value, int | str):  # first: histograms have hundreds of numbers
        return value
    if isinstance(value, JsonRecord):
        return value.to_json()
    if isinstance(value, tuple):
        return [_to_json(item) for item in value]
    return {key: _to_json(item) for key, item in value.items()} if isinstance(value, Mapping) else value


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."
