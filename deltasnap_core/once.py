"""A property that is computed once, even if several threads read it at the same time."""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock, RLock
from typing import Any, Generic, TypeVar, cast, overload

T = TypeVar("T")

_MISSING: Any = object()
_storing = Lock()


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
            value = values.get(self._name, _MISSING)
            if value is _MISSING:
                changes = values.get(self._changes, 0)
                value = self._compute(instance)
                with _storing:
                    if values.get(self._changes, 0) == changes:
                        # From now on, Python finds the value in the instance and does not call this descriptor.
                        values[self._name] = value
            return cast("T", value)

    def is_computed(self, instance: object) -> bool:
        """Return whether the value is computed. Usage: `Owner.name.is_computed(instance)`."""
        return self._name in vars(instance)

    def value_if_computed(self, instance: object) -> T | None:
        """Return the value; None: it is not computed yet."""
        return cast("T | None", vars(instance).get(self._name))

    def replace(self, instance: object, value: T) -> None:
        """Replace the value. The result of a running computation is not stored."""
        self._change(instance, value)

    def forget(self, instance: object) -> None:
        """Drop the value. The next read computes it again. The result of a running computation is not stored."""
        self._change(instance, _MISSING)

    @property
    def _changes(self) -> str:
        return f"_changes of {self._name}"

    def _change(self, instance: object, value: Any) -> None:
        # This does not wait for the lock of a computation, which may itself wait for the caller.
        values = vars(instance)
        with _storing:
            values[self._changes] = values.get(self._changes, 0) + 1
            if value is _MISSING:
                values.pop(self._name, None)
            else:
                values[self._name] = value


def forget_all(instance: object) -> None:
    """Drop the values of all `once` properties of an object. The next read computes them again."""
    for owner in type(instance).__mro__:
        for member in vars(owner).values():
            if isinstance(member, once):
                member.forget(instance)
