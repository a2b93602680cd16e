"""Reading the tables of a TOML file key by key. Pure.

A function that is passed to `Table.read` parses one value; it raises ValueError for a bad one, and the table
adds the key to the message.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from difflib import get_close_matches
from typing import Any

from agh.core.settings.values import text


class Table:
    """A table that is read key by key; `check_all_read` then refuses the keys nobody read."""

    def __init__(self, name: str, values: Any) -> None:
        if not isinstance(values, Mapping):
            raise ValueError(f"{name}: must be a table")
        self.name, self.values, self.read_keys = name, values, set[str]()

    def read(self, key: str, parse: Callable[[Any], Any], default: Any) -> Any:
        """Return the parsed value of the key, or the default if the table does not have it."""
        self.read_keys.add(key)
        if key not in self.values:
            return default
        try:
            return parse(self.values[key])
        except ValueError as error:
            raise ValueError(f"{self.path(key)}: {error}") from None

    def table(self, key: str) -> Table:
        """Return the table under the key; an empty one if it is missing."""
        self.read_keys.add(key)
        return Table(self.path(key), self.values.get(key, {}))

    def path(self, key: str) -> str:
        return f"{self.name}.{key}" if self.name else key

    def check_all_read(self) -> None:
        """Raise ValueError for the first key that was never read, with the key that was probably meant."""
        for key in self.values:
            if key not in self.read_keys:
                matches = get_close_matches(key, self.read_keys, n=1)
                suggestion = f"; did you mean {matches[0]}?" if matches else ""
                where = f"{self.name}: " if self.name else ""
                raise ValueError(f"{where}unknown key {key!r}{suggestion}")


def list_of_tables(parse: Callable[[Table], Any]) -> Callable[[Any], tuple[Any, ...]]:
    """Return a parser of a list of tables, each parsed by `parse`."""

    def read_tables(value: Any) -> tuple[Any, ...]:
        if not isinstance(value, list):
            raise ValueError("must be a list of tables")
        return tuple(parse(Table(f"number {number}", table)) for number, table in enumerate(value, 1))

    return read_tables


def one_of(*choices: str) -> Callable[[Any], str]:
    """Return a parser that accepts only these texts."""

    def read_choice(value: Any) -> str:
        if value not in choices:
            raise ValueError(f"{value!r} is not one of {', '.join(choices)}")
        return str(value)

    return read_choice


def boolean(value: Any) -> bool:
    if not isinstance(value, bool):
        raise ValueError(f"{value!r} is neither true nor false")
    return value


def list_of_texts(value: Any) -> tuple[str, ...]:
    if not isinstance(value, list):
        raise ValueError("must be a list of strings")
    return tuple(map(text, value))


def pairs(value: Any) -> tuple[tuple[str, str], ...]:
    pairs = [list_of_texts(pair) for pair in value] if isinstance(value, list) else [()]
    if not all(len(pair) == 2 and pair[0] != pair[1] for pair in pairs):
        raise ValueError("must be a list of pairs of different members, such as [['ann', 'bob']]")
    return tuple((pair[0], pair[1]) for pair in pairs)


def path_in_workspace(value: Any) -> str:
    path = text(value)
    if not path or path.startswith("/") or ".." in path.split("/") or "\0" in path:
        raise ValueError(f"{path!r} is not a relative path inside the workspace")
    return path


def check_names(names: tuple[str, ...], allowed: list[str], where: str) -> None:
    """Raise ValueError for the first name that is not allowed."""
    for name in names:
        if name not in allowed:
            raise ValueError(f"{where}: unknown name {name!r}; allowed: {', '.join(allowed) or 'none'}")
