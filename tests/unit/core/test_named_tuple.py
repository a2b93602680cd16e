"""agh.core.named_tuple against typing.NamedTuple: the same class body gives tuples that do the same."""

from __future__ import annotations
import __future__

import copy
import typing
from collections.abc import Callable
from inspect import signature
from typing import Any

import pytest

from agh.core.named_tuple import NamedTuple
from tests.support.build import ROOT

BODY = '''
class Point(NamedTuple):
    """A point."""

    x: int
    y: int = 2
    label: str | None = None

    @property
    def total(self):
        return self.x + self.y

    @classmethod
    def origin(cls):
        return cls(0, 0)
'''
USES: dict[str, Callable[[Any], object]] = {
    "by position": lambda point: point(1, 3, "a"),
    "by name": lambda point: point(label="a", x=1),
    "a default": lambda point: point(1).y,
    "a method": lambda point: point(1).total,
    "a class method": lambda point: point.origin(),
    "its text": lambda point: repr(point(1, label="a")),
    "its values": lambda point: [*point(1), len(point(1)), point(1)[-2:]],
    "equal to a tuple": lambda point: (point(1) == (1, 2, None), hash(point(1)) == hash((1, 2, None))),
    "sorted": lambda point: sorted([point(2), point(1, 9), point(1)]),
    "as a mapping": lambda point: point(1)._asdict(),
    "from values": lambda point: point._make([4, 5, 6]),
    "with changes": lambda point: point(1)._replace(y=7, label="b"),
    "copied": lambda point: (copy.copy(point(1)), copy.deepcopy(point([1])), str(copy.copy(point(1)))),
    "its fields": lambda point: (point._fields, point._field_defaults, point.__match_args__),
    "its annotations": lambda point: list(point.__annotations__),
    "its signature": lambda point: [(a.name, a.default) for a in signature(point).parameters.values()],
    "its names": lambda point: (point.__name__, point.__qualname__, point.__module__, point.__doc__),
    "no place for more": lambda point: hasattr(point(1), "__dict__"),
}
MISUSES: dict[str, Callable[[Any], object]] = {
    "too few": lambda point: point(),
    "too many": lambda point: point(1, 2, 3, 4),
    "an unknown name": lambda point: point(1, z=2),
    "too few values": lambda point: point._make([1]),
    "an unknown change": lambda point: point(1)._replace(z=2),
    "a new value in place": lambda point: setattr(point(1), "x", 2),
    "a new attribute": lambda point: setattr(point(1), "z", 2),
}


def define(base: object) -> Any:
    names: dict[str, Any] = {"NamedTuple": base, "__name__": "shapes"}
    exec(compile(BODY, "shapes", "exec", flags=__future__.annotations.compiler_flag), names)
    return names["Point"]


OURS, TYPINGS = define(NamedTuple), define(typing.NamedTuple)


@pytest.mark.parametrize("use", USES.values(), ids=USES)
def test_it_does_the_same(use: Callable[[Any], object]) -> None:
    assert use(OURS) == use(TYPINGS)


@pytest.mark.parametrize("misuse", MISUSES.values(), ids=MISUSES)
def test_it_refuses_the_same(misuse: Callable[[Any], object]) -> None:
    with pytest.raises(Exception) as theirs:
        misuse(TYPINGS)
    with pytest.raises(theirs.type):
        misuse(OURS)


def test_it_is_matched_by_position_and_by_name() -> None:
    match OURS(1, 2, "a"):
        case OURS(x, y, label="a"):
            assert (x, y) == (1, 2)
        case other:
            pytest.fail(f"{other!r} did not match")


def test_a_mistake_names_the_class_and_the_argument() -> None:
    with pytest.raises(TypeError, match=r"^Point\.__new__\(\) missing 1 required positional argument: 'x'$"):
        OURS()


def test_a_class_without_fields_is_empty() -> None:
    class Nothing(NamedTuple):
        pass

    assert Nothing() == () and Nothing._fields == ()


def test_every_module_that_uses_it_is_ready_for_python_3_14() -> None:
    """There, annotations are in a class body only if the module imports them from __future__."""
    sources = [file.read_text() for room in ("agh", "plugins") for file in (ROOT / room).rglob("*.py")]
    users = [text for text in sources if "(NamedTuple):" in text]
    assert len(users) > 50
    assert [text[:80] for text in users if "\nfrom __future__ import annotations\n" not in text] == []
    with pytest.raises(TypeError, match="Later needs: from __future__ import annotations"):
        type(NamedTuple)("Later", (NamedTuple,), {"__annotate_func__": lambda format: {"x": int}})
