"""A property computed once, also when several threads ask for it at the same time."""

from __future__ import annotations

from collections.abc import Callable
from threading import RLock
from typing import Any, Generic, TypeVar, cast, overload

T = TypeVar("T")


class once(Generic[T]):  # noqa: N801 - a decorator, named as `property` is
    """Like `functools.cached_property`, with a lock of its own for each object and property.

    A thread that asks while another computes waits for that answer; other properties do not wait. An error is raised
    to whoever asked and not kept: the next one to ask tries again.
    """

    def __init__(self, compute: Callable[[Any], T]) -> None:
        self._compute = compute
        self._name = compute.__name__
        self.__doc__ = compute.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    @overload
    def __get__(self, instance: None, owner: type) -> once[T]: ...
    @overload
    def __get__(self, instance: object, owner: type) -> T: ...
    def __get__(self, instance: object | None, owner: type) -> T | once[T]:
        if instance is None:
            return self
        values = vars(instance)
        with values.setdefault(f"_lock of {self._name}", RLock()):
            if self._name not in values:
                # Found in the instance from now on: this descriptor is not asked again.
                values[self._name] = self._compute(instance)
        return cast("T", values[self._name])


def value_if_computed(instance: object, name: str) -> Any | None:
    """Return the value of a `once` property, None where nobody has asked for it yet."""
    return vars(instance).get(name)


def replace_value(instance: object, name: str, value: Any) -> None:
    """Have a `once` property return another value from now on."""
    vars(instance)[name] = value


def forget(instance: object, *names: str) -> None:
    """Have `once` properties compute their values anew when they are asked next."""
    for name in names:
        vars(instance).pop(name, None)
