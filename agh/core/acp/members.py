"""Finding the value of a key in the JSON text of an object, without parsing it. Pure.

The text must be JSON that a parser has accepted. Time is linear in its length, and memory does not grow
with it: the patterns are possessive, because one that can backtrack remembers every step.
"""

from __future__ import annotations

import re

import orjson

_SPACE = rb"[ \t\r\n]*+"
STRING = rb'"[^"\\]*+(?:(?:\\.)++[^"\\]*+)*+"'
_KEY = rb"(?s)" + _SPACE + b"(" + STRING + b")" + _SPACE + b":" + _SPACE
_NEXT = _SPACE + b","
_SCALAR = rb"[^\s,\]}]++"
_BETWEEN_BRACKETS = rb'(?s)(?:[^"{}\[\]]++|' + STRING + rb")*+"


def member(text: bytes, start: int, key: str) -> tuple[int, int] | None:
    """Return the span of the key's value in the object that begins at or after `start`; the last key wins."""
    keys, commas = re.compile(_KEY), re.compile(_NEXT)
    span = None
    pos = text.find(b"{", start) + 1
    while match := keys.match(text, pos):
        end = _value_end(text, match.end())
        if _is_key(match[1], key):
            span = (match.end(), end)
        comma = commas.match(text, end)
        if comma is None:
            break
        pos = comma.end()
    return span


def _is_key(quoted: bytes, key: str) -> bool:
    return quoted == b'"%s"' % key.encode() or (b"\\" in quoted and bool(orjson.loads(quoted) == key))


def _value_end(text: bytes, pos: int) -> int:
    if text[pos] not in b"{[":
        pattern = re.compile(b"(?s)" + STRING if text[pos] == ord('"') else _SCALAR)
        match = pattern.match(text, pos)
        return match.end() if match else len(text)
    flat = re.compile(_BETWEEN_BRACKETS)
    depth = 0
    while pos < len(text):
        depth += 1 if text[pos] in b"{[" else -1
        pos += 1
        if depth == 0:
            return pos
        match = flat.match(text, pos)
        pos = match.end() if match else len(text)
    return len(text)
