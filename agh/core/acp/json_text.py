"""JSON text that may be too large or slightly broken: limits to check before parsing, and repairs. Pure.

Promises: time is linear and memory bounded. A repair changes as little as possible: bad UTF-8 and lone
surrogates become U+FFFD, NaN and Infinity become null, a number beyond every float becomes a string, and a
byte order mark is removed.
"""

from __future__ import annotations

import codecs
import math
import re
from collections.abc import Container, Iterator
from contextlib import suppress
from typing import Any

import orjson

from agh.core.acp.long_text import loads

MAX_DEPTH = 200  # orjson writes at most 254 levels, and stored values get wrapped in more
MAX_VALUES = 300_000  # an empty list is 3 bytes on the wire and 80 in memory, an object of one member 250
MAX_NUMBER_REPAIR = 1 << 20  # bytes; this repair looks at every token
MAX_GROWTH = 1 << 20  # bytes; the replacement of a bad byte takes three
BLOCK = 1 << 16  # bytes

NOT_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))
# A repair is worth trying only if the line contains one of these; plain chatter does not.
REPAIRABLE = rb"[0-9\x80-\xff]|\\u|NaN|Infinity"
# Escapes are matched one after the other, so an escaped backslash is not mistaken for the start of one.
# A run of escapes other than surrogates is a single match.
SURROGATE = (
    rb"(?s)\\(?:[^u][^\\]*+(?:\\[^u][^\\]*+)*+|u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"
    rb"|(?P<lone>u[dD][89a-fA-F][0-9a-fA-F]{2}))"
)
# Possessive, so that an unterminated string costs one pass instead of one for each of its quotes.
STRING_OR_NUMBER = (
    r'(?s)"(?:[^"\\]++|\\.)*+"?|-?Infinity|NaN|-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?'
)


def find_excess(line: bytes, max_values: int = MAX_VALUES, max_depth: int = MAX_DEPTH) -> str | None:
    """Return why the line is too complex to parse, or None. Brackets and commas in strings do not count."""
    opened = line.count(b"[") + line.count(b"{")
    if opened <= max_depth and (len(line) <= max_values or opened + line.count(b",") <= max_values):
        return None
    values = depth = 0
    for structure in _strip_strings(line):
        values += structure.count(b"[") + structure.count(b"{") + structure.count(b",")
        if values > max_values:
            return "too many values"
        for byte in structure.translate(None, NOT_BRACKETS):
            depth += 1 if byte in b"[{" else -1
            if depth > max_depth:
                return "nested too deeply"
            if depth < 0:
                return None  # not JSON; the parser will say so
    return None


def _match_backslashes(line: bytes, start: int) -> bytes:
    match = re.compile(rb"\\*+").match(line, start)
    return match[0] if match else b""


def _strip_strings(line: bytes) -> Iterator[bytes]:
    """Yield the text outside of strings, block by block; doing it all at once would take much more memory."""
    in_string = start = 0
    while start < len(line):
        end = start + BLOCK
        if line[end - 1 : end] == b"\\":  # never split an escape
            end += len(_match_backslashes(line, end)) + 1
        bare = line[start:end].replace(b"\\\\", b"").replace(b'\\"', b"")
        parts = bare.split(b'"')
        yield b"".join(parts[in_string::2])
        in_string ^= len(parts) + 1 & 1
        start = end


def repair(line: bytes, bulk: Container[str] | None = None) -> tuple[bytes, Any] | None:
    """Return the line as valid JSON, changed as little as possible, and its value; None if it is hopeless."""
    text = valid_utf8(line.removeprefix(b"\xef\xbb\xbf"))
    if text is None:
        return None
    text = without_lone_surrogates(text)
    with suppress(ValueError):
        return text, loads(text, bulk)
    if len(text) <= MAX_NUMBER_REPAIR:
        text = re.sub(STRING_OR_NUMBER, _repair_number, text.decode()).encode()
        with suppress(ValueError):
            return text, orjson.loads(text)
    return None


def valid_utf8(line: bytes) -> bytes | None:
    """Replace bytes that are not UTF-8 by U+FFFD; return None if the line would get much longer."""
    with suppress(UnicodeDecodeError):
        for _ in _decode_blocks(line, "strict"):
            pass
        return line
    text = b"".join(block.encode() for block in _decode_blocks(line, "replace"))
    return text if len(text) <= len(line) + MAX_GROWTH else None


def _decode_blocks(line: bytes, errors: str) -> Iterator[str]:
    """Decode UTF-8 block by block: a single character can make the whole text four times as large."""
    decoder = codecs.getincrementaldecoder("utf-8")(errors)
    for start in range(0, len(line), BLOCK):
        yield decoder.decode(line[start : start + BLOCK], final=start + BLOCK >= len(line))


def without_lone_surrogates(text: bytes, escape: bytes = rb"\ufffd") -> bytes:
    """Replace each escape of a lone surrogate by `escape`, which must have the same length."""
    changed: bytearray | None = None
    for match in re.finditer(SURROGATE, text):
        if match["lone"]:
            changed = bytearray(text) if changed is None else changed
            changed[match.start() : match.end()] = escape
    return text if changed is None else bytes(changed)


def _repair_number(match: re.Match[str]) -> str:
    token = match[0]
    if token[0] == '"':
        return token
    if token[-1] in "Ny":
        return "null"
    return f'"{token}"' if abs(float(token)) == math.inf else token
