"""Reading the tables of a TOML file key by key: what is wrong is a ValueError that names the key. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from difflib import get_close_matches
from typing import Any

from agh.core.values import text


class Table:
    """A table that is read key by key; at the end no key may be left over."""

    def __init__(self, name: str, given: Any) -> None:
        if not isinstance(given, Mapping):
            raise ValueError(f"{name}: not a table")
        self.name, self.given, self.asked = name, given, set[str]()

    def read(self, key: str, kind: Callable[[Any], Any], default: Any) -> Any:
        self.asked.add(key)
        if key not in self.given:
            return default
        try:
            return kind(self.given[key])
        except ValueError as error:
            raise ValueError(f"{self.path(key)}: {error}") from None

    def table(self, key: str) -> Table:
        self.asked.add(key)
        return Table(self.path(key), self.given.get(key, {}))

    def path(self, key: str) -> str:
        return f"{self.name}.{key}" if self.name else key

    def finish(self) -> None:
        for key in self.given:
            if key not in self.asked:
                close = get_close_matches(key, self.asked, n=1)
                meant = f"; did you mean {close[0]}?" if close else ""
                raise ValueError(f"unknown key {self.path(key)!r}{meant}")


def tables(kind: Callable[[Table], Any]) -> Callable[[Any], tuple[Any, ...]]:
    def read(given: Any) -> tuple[Any, ...]:
        if not isinstance(given, list):
            raise ValueError("not a list of tables")
        return tuple(kind(Table(f"number {number}", one)) for number, one in enumerate(given, 1))

    return read


def one_of(*choices: str) -> Callable[[Any], str]:
    def read(given: Any) -> str:
        if given not in choices:
            raise ValueError(f"{given!r} is none of {', '.join(choices)}")
        return str(given)

    return read


def flag(given: Any) -> bool:
    if not isinstance(given, bool):
        raise ValueError(f"{given!r} is neither true nor false")
    return given


def texts(given: Any) -> tuple[str, ...]:
    if not isinstance(given, list):
        raise ValueError("not a list of texts")
    return tuple(map(text, given))


def pairs(given: Any) -> tuple[tuple[str, str], ...]:
    pairs = [texts(pair) for pair in given] if isinstance(given, list) else [()]
    if not all(len(pair) == 2 and pair[0] != pair[1] for pair in pairs):
        raise ValueError("not a list of pairs of two members each")
    return tuple((pair[0], pair[1]) for pair in pairs)


def inside(given: Any) -> str:
    path = text(given)
    if not path or path.startswith("/") or ".." in path.split("/") or "\0" in path:
        raise ValueError(f"{path!r} is not a path inside the workspace")
    return path


def check_known(names: tuple[str, ...], known: list[str], where: str) -> None:
    for name in names:
        if name not in known:
            raise ValueError(f"{where}: there is no {name!r}; there is {', '.join(known)}")
