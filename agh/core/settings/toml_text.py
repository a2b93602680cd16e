"""Changing one value in a TOML text while comments and layout stay. Pure.

Promises: a change counts only if exactly the one value has changed; a text in which that cannot be done is
left alone.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any


class CannotEdit(Exception):
    """The value cannot be changed without changing something else."""


def set_value(text: str, key: str, value: str | bool | int | float | list[str] | None) -> str:
    """Return the text with the dotted `key` set to `value`, or without it if that is None."""
    import tomllib  # a keeper without settings does not need it: 2 ms and 0.3 MB

    import tomlkit
    from tomlkit.exceptions import TOMLKitError

    before = dict(flatten(tomllib.loads(text)))
    after = {name: old for name, old in before.items() if name != key}
    if value is not None:
        after[key] = value
    if after == before:
        return text
    try:
        document = tomlkit.parse(text)
        _set(document, key.split("."), value)
        new = tomlkit.dumps(document)
        if dict(flatten(tomllib.loads(new))) != after:
            raise CannotEdit(key)
    except (TOMLKitError, tomllib.TOMLDecodeError, TypeError, AttributeError):
        raise CannotEdit(key) from None
    return new


def _set(document: Any, path: list[str], value: Any) -> None:
    """Set or delete the value at a path, making the tables above it where they are missing."""
    import tomlkit

    table = document
    for number, name in enumerate(path[:-1], 1):
        if name not in table:
            if value is None:
                return
            table[name] = tomlkit.table(is_super_table=number < len(path) - 1)
        table = table[name]
    if value is None:
        del table[path[-1]]
    else:
        table[path[-1]] = value


def flatten(
    table: Mapping[str, Any], prefix: str = "", whole: Collection[str] = ()
) -> Iterator[tuple[str, Any]]:
    """Yield every value that is not a table, under its dotted key; the tables in `whole` are values too."""
    for key, value in table.items():
        if isinstance(value, dict) and f"{prefix}{key}" not in whole:
            yield from flatten(value, f"{prefix}{key}.", whole)
        else:
            yield f"{prefix}{key}", value
