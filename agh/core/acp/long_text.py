"""JSON with very long strings, parsed without turning those strings into Python text. Pure.

Python needs up to four bytes for each character of a text, and the parser a copy of it. So a string beyond
`LONG_STRING` in a long document stays JSON: its value is a `LongText`, which is the beginning of the text and
knows the rest.

Promises: `loads` accepts exactly what orjson accepts, and `dumps` and `join_pieces` write every string whole.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Iterator
from typing import Any

import orjson

from agh.core.acp.members import STRING

LONG = 1 << 20  # bytes of a document; anything longer is copied as rarely as possible
LONG_STRING = 1 << 16  # bytes of one string in such a document
BEGINNING = 4_000  # characters

# At most 256 KiB, never cut inside an escape, a surrogate pair or a character.
_BLOCK = (
    rb"(?s)(?:[\x00-\x5b\x5d-\x7f]{1,256}+|[\xc0-\xff][\x80-\xbf]*+"
    rb"|\\u[dD][89abAB][0-9a-fA-F]{2}\\u[0-9a-fA-F]{4}|\\u[0-9a-fA-F]{4}|\\.){1,1024}+"
)
_STRING_OR_KEY = STRING + rb"([ \t\r\n]*+:)?+"


class LongText(str):
    """The beginning of a very long string. `literal` is all of it as JSON, with its quotes."""

    literal: memoryview

    def __new__(cls, literal: memoryview) -> LongText:
        text = super().__new__(cls, next(_blocks(literal), "")[:BEGINNING])
        text.literal = literal
        return text


def loads(document: bytes, bulk: Container[str] | None = None) -> Any:
    """Parse a JSON document, keeping the very long strings of a long one as LongText.

    With `bulk`, only those below one of these keys; all other strings are whole.
    """
    if len(document) <= LONG:
        return orjson.loads(document)
    short, texts = _cut(document)
    value = orjson.loads(short)
    return _put_back([value], texts, bulk)[0] if texts else value


def dumps(value: Any) -> bytes:
    """Write a value as JSON, each LongText whole."""
    return b"".join(join_pieces(value))


def join_pieces(value: Any) -> list[bytes | memoryview]:
    """Return a value as JSON in pieces to be joined, so that no LongText is copied."""
    literals: list[memoryview] = []

    def mark(subclass: Any) -> orjson.Fragment:
        if not isinstance(subclass, LongText):
            raise TypeError(f"{type(subclass).__name__} is not JSON")
        literals.append(subclass.literal)
        return orjson.Fragment(b"\0")  # which no JSON has

    first, *others = orjson.dumps(value, mark, orjson.OPT_PASSTHROUGH_SUBCLASS).split(b"\0")
    pieces: list[bytes | memoryview] = [first]
    for literal, other in zip(literals, others, strict=True):
        pieces += (literal, other)
    return pieces


def join_texts(texts: list[str], separator: str) -> str:
    """Join texts, any of which may be a LongText; then the result is one too."""
    if len(texts) == 1:
        return texts[0]
    if not any(isinstance(text, LongText) for text in texts):
        return separator.join(texts)
    inner = (join_pieces(text) for text in texts)
    bodies = (memoryview(b"".join(pieces))[1:-1] for pieces in inner)
    return LongText(memoryview(b'"' + orjson.dumps(separator)[1:-1].join(bodies) + b'"'))


def json_length(text: str) -> int:
    """Return about how many bytes a text has as JSON."""
    return len(text.literal) if isinstance(text, LongText) else len(text)


def blocks(text: str) -> Iterator[str]:
    """Yield a text block by block; all of it, also if it is a LongText."""
    yield from _blocks(text.literal) if isinstance(text, LongText) else (text,)


def _blocks(literal: memoryview) -> Iterator[str]:
    """Yield the string that is written as this JSON; raise ValueError where it is invalid."""
    position, end = 1, len(literal) - 1
    pattern = re.compile(_BLOCK)
    while position < end:
        match = pattern.match(literal, position, end)
        if match is None:
            raise ValueError("not a JSON string")
        position = match.end()
        text: str = orjson.loads(b'"%b"' % match[0])
        yield text


def _cut(document: bytes) -> tuple[bytes, dict[str, LongText]]:
    """Return the document with a mark for each very long value, and these values by mark."""
    mark = f"long text {hash(document):x} "  # seeded in each process, so that no document can contain it
    texts: dict[str, LongText] = {}
    pieces: list[bytes] = []
    view, start = memoryview(document), 0
    for match in re.finditer(_STRING_OR_KEY, document):
        if match.end() - match.start() > LONG_STRING and match[1] is None:
            literal = view[match.start() : match.end()]
            for _ in _blocks(literal):
                pass  # raises if it is invalid
            name = f"{mark}{len(texts)}"
            texts[name] = LongText(literal)
            pieces += (document[start : match.start()], b'"%b"' % name.encode())
            start = match.end()
    return b"".join((*pieces, view[start:])), texts


def _put_back(values: Any, texts: dict[str, LongText], bulk: Container[str] | None) -> Any:
    """Replace each mark in a list or a mapping, at any depth, by its text."""
    entries: Iterable[tuple[Any, Any]] = values.items() if isinstance(values, dict) else enumerate(values)
    for key, value in entries:
        below = None if bulk is None or key in bulk else bulk
        if isinstance(value, str):
            if value in texts:
                values[key] = texts[value] if below is None else "".join(blocks(texts[value]))
        elif isinstance(value, dict | list):
            _put_back(value, texts, below)
    return values
