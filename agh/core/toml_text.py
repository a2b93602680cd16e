"""TOML as text: formatting a value, and changing one value in a file without touching the rest. Pure.

An edit is made on the text, then parsed, and accepted only if exactly that one value has changed. A file
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
    """The text has no spot where the change could be made safely."""


def literal(value: str | bool | int | float) -> str:
    """Format a value as TOML."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return repr(value)
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def changed(text: str, key: str, value: str | bool | int | float | None) -> str:
    """Return the text with the dotted `key` set to `value`, or without the key if `value` is None."""
    before = dict(flat(tomllib.loads(text)))
    after = {name: old for name, old in before.items() if name != key}
    if value is not None:
        after[key] = value
    if after == before:
        return text
    for candidate in _candidates(text, key, value):
        try:
            if dict(flat(tomllib.loads(candidate))) == after:
                return candidate
        except tomllib.TOMLDecodeError:
            continue
    raise CannotEdit(key)


def flat(
    table: Mapping[str, Any], prefix: str = "", whole: Collection[str] = ()
) -> Iterator[tuple[str, Any]]:
    """Yield each value with its dotted key, descending into tables except those named in `whole`."""
    for key, value in table.items():
        if isinstance(value, dict) and f"{prefix}{key}" not in whole:
            yield from flat(value, f"{prefix}{key}.", whole)
        else:
            yield f"{prefix}{key}", value


def _candidates(text: str, key: str, value: Any) -> Iterator[str]:
    """Yield edited texts, the most natural first: in place, in its table, in a new table, at the top."""
    newline = "\r\n" if "\r\n" in text else "\n"
    lines = text.split(newline)
    table, _, name = key.rpartition(".")
    ends: dict[str, int] = {"": 0}  # the line after each table's last entry; "" is the top of the file
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
        yield _insert(lines, ends[table], f"{name} = {literal(value)}", newline)
    if table:
        body = text.rstrip()
        gap = newline * 2 if body else ""
        yield f"{body}{gap}[{table}]{newline}{name} = {literal(value)}{newline}"
    yield _insert(lines, ends[""], f"{key} = {literal(value)}", newline)


def _insert(lines: list[str], at: int, line: str, newline: str) -> str:
    if not at:  # below the comment at the top of the file, if it has one
        while at < len(lines) and lines[at].startswith("#"):
            at += 1
        at = at if at < len(lines) and not lines[at].strip() else 0
    tail = lines[at:] if any(lines[at:]) else [""]
    after_heading = [] if not at or lines[at - 1].strip() == "" or not lines[at - 1].startswith("#") else [""]
    before_header = [""] if tail[0].lstrip().startswith("[") and not at else []
    return newline.join([*lines[:at], *after_heading, line, *before_header, *tail])


def _dotted(key: str) -> str:
    return ".".join(part.strip().strip("\"'") for part in key.split("."))
