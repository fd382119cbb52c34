"""A property that is computed once, even if several threads read it at the same time."""

from __future__ import annotations

from collections.abc import Callable
from threading import RLock
from typing import Any, Generic, TypeVar, cast, overload

T = TypeVar("T")


class once(Generic[T]):  # noqa: N801 - a decorator, named as `property` is
    """Like `functools.cached_property`, with a separate lock for each object and property.

    If one thread computes the value, other threads that read the same property wait for it; other properties do not
    wait. An error is raised to the reader and not stored: the next read computes again.
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
                # From now on, Python finds the value in the instance and does not call this descriptor.
                values[self._name] = self._compute(instance)
            return cast("T", values[self._name])

    def is_computed(self, instance: object) -> bool:
        """Return whether the value is computed. Usage: `Owner.name.is_computed(instance)`."""
        return self._name in vars(instance)
