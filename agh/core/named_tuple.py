"""Tuples with named fields, as `typing.NamedTuple` makes them, in a tenth of the time. Pure.

A class is written and used like one of `typing`, and a type checker takes it for one. That one compiles each
annotation and a constructor. A keeper has 47 such classes: its imports take 291 million instructions with
these, and 326 million with those of `typing`.

Never checks an annotation. Fields without defaults come first, and no name begins with an underscore: a type
checker says so before Python does. A module that uses it imports `annotations` from `__future__`; else Python
3.14 would keep them out of the class body.
"""

from __future__ import annotations

from functools import cache
from operator import itemgetter
from types import CodeType, FunctionType

try:
    from _collections import _tuplegetter as field_at  # type: ignore[import-not-found]  # what collections uses
except ImportError:

    def field_at(index: int, doc: str) -> property:
        return property(itemgetter(index), doc=doc)


TYPE_CHECKING = False  # what type checkers read as true, without the cost of importing typing
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any, Self
    from typing import NamedTuple as NamedTuple


class _Fields(tuple):  # type: ignore[type-arg]
    """What all these tuples can do."""

    __slots__ = ()
    _fields: tuple[str, ...] = ()

    @classmethod
    def _make(cls, values: Iterable[Any]) -> Self:
        """Make a tuple from a value for each field."""
        fields = tuple.__new__(cls, values)
        if len(fields) != len(cls._fields):
            raise TypeError(f"{cls.__name__} needs {len(cls._fields)} values, not {len(fields)}")
        return fields

    def _replace(self, **changes: Any) -> Self:
        """Return the same tuple with other values in some fields."""
        fields = self._make(map(changes.pop, self._fields, self))
        if changes:
            raise ValueError(f"{type(self).__name__} has no field {', '.join(changes)}")
        return fields

    def _asdict(self) -> dict[str, Any]:
        """Return the values by field."""
        return dict(zip(self._fields, self, strict=True))

    def __repr__(self) -> str:
        values = (f"{field}={value!r}" for field, value in zip(self._fields, self, strict=True))
        return f"{type(self).__name__}({', '.join(values)})"

    def __getnewargs__(self) -> tuple[Any, ...]:
        return tuple(self)


class _Maker(type):
    """Makes a class of tuples from a class body."""

    def __new__(cls, name: str, bases: tuple[type, ...], namespace: dict[str, Any]) -> type:
        if "__annotate_func__" in namespace:  # by Python 3.14
            raise TypeError(f"{name} needs: from __future__ import annotations")
        fields = tuple(namespace.get("__annotations__", ()))
        defaults = {field: namespace[field] for field in fields if field in namespace}
        namespace |= {field: field_at(index, "") for index, field in enumerate(fields)}
        namespace["__new__"] = _constructor(name, fields, tuple(defaults.values()))
        namespace["__slots__"], namespace["__match_args__"] = (), fields
        namespace["_fields"], namespace["_field_defaults"] = fields, defaults
        return type.__new__(type, name, (_Fields,), namespace)


def _constructor(name: str, fields: tuple[str, ...], defaults: tuple[Any, ...]) -> FunctionType:
    """Return a `__new__` with an argument for each field."""
    code = _template(len(fields)).replace(
        co_varnames=("_cls", *fields), co_name="__new__", co_qualname=f"{name}.__new__"
    )
    return FunctionType(code, {"new": tuple.__new__}, "__new__", defaults)


@cache
def _template(count: int) -> CodeType:
    """Return the code of a constructor for so many fields; only the names of its arguments are to be set."""
    names = "".join(f"field_{number}, " for number in range(count))
    constructor: FunctionType = eval(f"lambda _cls, {names}: new(_cls, ({names}))")
    return constructor.__code__


if not TYPE_CHECKING:
    NamedTuple = type.__new__(_Maker, "NamedTuple", (), {})
