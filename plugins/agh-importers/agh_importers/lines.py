"""Lines of JSON as other programs leave them: half written at the end, now and then broken.

Promises: the file is only read; a line that is no JSON object is given as such, never passed over in
silence; a last line without its newline is still being written and is not given at all.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any, BinaryIO

import orjson

from agh.core.json_text import find_excess, valid_utf8, without_lone_surrogates

LONGEST = 64 << 20  # bytes; a longer line is given as broken
MAX_VALUES, MAX_DEPTH = 1_000_000, 250  # of one line
_STAMP = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", re.ASCII)


def lines(path: str) -> Iterator[dict[str, Any]]:
    """Yield each line as an object; a broken one as `{"type": "broken", "line": N, "reason", "text"}`."""
    number = 0
    with open(path, "rb") as file:
        while data := file.readline(LONGEST):
            number += 1
            if data.isspace():
                continue
            text, reason, ended = data[:200], "is not JSON", data.endswith(b"\n")
            if len(data) == LONGEST and not ended:
                reason, ended = f"is longer than {LONGEST >> 20} MB", True
                value = None
                _skip_line(file)
            else:
                value = parsed(data)
            del data  # it may be very long
            if value is not None:
                yield value
            elif ended:
                start = text.decode(errors="replace").strip()
                yield {"type": "broken", "line": number, "reason": reason, "text": start}


def _skip_line(file: BinaryIO) -> None:
    while (piece := file.readline(1 << 20)) and not piece.endswith(b"\n"):
        pass


def parsed(data: bytes) -> dict[str, Any] | None:
    if find_excess(data, MAX_VALUES, MAX_DEPTH):
        return None
    try:
        value = orjson.loads(data)
    except orjson.JSONDecodeError:
        try:  # a lone surrogate is JSON to those who wrote it
            value = orjson.loads(without_lone_surrogates(valid_utf8(data) or b"", rb"\u003f"))
        except orjson.JSONDecodeError:
            return None
    return value if isinstance(value, dict) else None


def first_lines(head: bytes) -> Iterator[dict[str, Any]]:
    """The objects in the first bytes of a file, as far as they are complete."""
    for data in head.split(b"\n")[:20]:
        value = parsed(data)
        if value is not None:
            yield value


def stamp(text: object) -> str | None:
    """A time as agh writes it; None for what is none."""
    if not isinstance(text, str):
        return None
    if _STAMP.fullmatch(text):
        return text
    try:
        when = datetime.fromisoformat(text)
    except ValueError:
        return None
    when = when.astimezone(UTC) if when.tzinfo else when.replace(tzinfo=UTC)
    return when.strftime("%Y-%m-%dT%H:%M:%S.") + f"{when.microsecond // 1000:03d}Z"
