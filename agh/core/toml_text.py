"""TOML as text: writing a value, and changing one value in a file while the rest stays as it is. Pure.

An edit is made on the text, then parsed, and counts only if exactly the one value has changed: a file
whose layout is not understood is left alone, never damaged.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Collection, Iterator, Mapping
from typing import Any

_HEADER = re.compile(r"\s*\[\s*([^\[\]]+?)\s*\]\s*(?:#.*)?$")
_ANY_HEADER = re.compile(r"\s*\[")
_ENTRY = re.compile(r"(\s*)([^=#\[\]\"']+?)(\s*=\s*)(.*)$")
_SCALAR = re.compile(r'(?:"(?:[^"\\]|\\.)*"|\'[^\']*\'|[^\s#"\'\[{]+)')


class CannotEdit(Exception):
    """The text has no place where the change could be made for certain."""


def literal(value: str | bool | int | float) -> str:
    """A value as TOML writes it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return repr(value)
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def changed(text: str, key: str, value: str | bool | int | float | None) -> str:
    """The text with the dotted `key` set to `value`, or without it when that is None."""
    before = dict(flat(tomllib.loads(text)))
    wanted = {name: one for name, one in before.items() if name != key}
    if value is not None:
        wanted[key] = value
    if wanted == before:
        return text
    for candidate in _candidates(text, key, value):
        try:
            if dict(flat(tomllib.loads(candidate))) == wanted:
                return candidate
        except tomllib.TOMLDecodeError:
            continue
    raise CannotEdit(key)


def flat(
    table: Mapping[str, Any], prefix: str = "", whole: Collection[str] = ()
) -> Iterator[tuple[str, Any]]:
    """Every value that is not a table, under its dotted key; the tables in `whole` are values too."""
    for key, value in table.items():
        if isinstance(value, dict) and f"{prefix}{key}" not in whole:
            yield from flat(value, f"{prefix}{key}.", whole)
        else:
            yield f"{prefix}{key}", value


def _candidates(text: str, key: str, value: Any) -> Iterator[str]:
    """Ways to make the change, the most natural first: in place, in its table, in a new one, at the top."""
    newline = "\r\n" if "\r\n" in text else "\n"
    lines = text.split(newline)
    table, _, name = key.rpartition(".")
    ends: dict[str, int] = {"": 0}  # where a table's last entry ends; in the file's head at first
    current: str | None = ""
    for number, line in enumerate(lines):
        if _ANY_HEADER.match(line) and (header := _HEADER.match(line)):
            current = _dotted(header[1])
            ends[current] = number + 1
            continue
        if line.lstrip().startswith("[["):
            current = None
        if current is None or not line.strip() or line.lstrip().startswith("#"):
            continue
        ends[current] = number + 1
        entry = _ENTRY.match(line)
        if entry and _dotted(f"{current}.{entry[2]}" if current else entry[2]) == key:
            if value is None:
                yield newline.join([*lines[:number], *lines[number + 1 :]])
            elif old := _SCALAR.match(entry[4]):
                new = entry[1] + entry[2] + entry[3] + literal(value) + entry[4][old.end() :]
                yield newline.join([*lines[:number], new, *lines[number + 1 :]])
    if value is None:
        return
    if table in ends:
        yield _inserted(lines, ends[table], f"{name} = {literal(value)}", newline)
    if table:
        body = text.rstrip()
        gap = newline * 2 if body else ""
        yield f"{body}{gap}[{table}]{newline}{name} = {literal(value)}{newline}"
    yield _inserted(lines, ends[""], f"{key} = {literal(value)}", newline)


def _inserted(lines: list[str], at: int, line: str, newline: str) -> str:
    if not at:  # below the file's own heading, if it has one
        while at < len(lines) and lines[at].startswith("#"):
            at += 1
        at = at if at < len(lines) and not lines[at].strip() else 0
    tail = lines[at:] if any(lines[at:]) else [""]
    after_heading = [] if not at or lines[at - 1].strip() == "" or not lines[at - 1].startswith("#") else [""]
    before_header = [""] if tail[0].lstrip().startswith("[") and not at else []
    return newline.join([*lines[:at], *after_heading, line, *before_header, *tail])


def _dotted(key: str) -> str:
    return ".".join(part.strip().strip("\"'") for part in key.split("."))
