"""Lines of JSON as other programs leave them: sometimes broken, and half written at the end.

Promises: the file is only read; a line that is not a JSON object is yielded as broken, never skipped
silently; a last line without its newline is still being written and is skipped if it is not complete.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any, BinaryIO

import orjson

from agh.core.acp.json_text import find_excess, valid_utf8, without_lone_surrogates

LONGEST = 64 << 20  # bytes; a longer line is yielded as broken
MAX_VALUES, MAX_DEPTH = 1_000_000, 250  # of one line
_TIMESTAMP = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", re.ASCII)


def read_lines(path: str) -> Iterator[dict[str, Any]]:
    """Yield each line as an object; a broken one as `{"type": "broken", "line": N, "reason", "text"}`."""
    number = 0
    with open(path, "rb") as file:
        while line := file.readline(LONGEST):
            number += 1
            if line.isspace():
                continue
            start, reason, is_complete = line[:200], "is not JSON", line.endswith(b"\n")
            if len(line) == LONGEST and not is_complete:
                reason, is_complete = f"is longer than {LONGEST >> 20} MB", True
                value = None
                _skip_line(file)
            else:
                value = parse_line(line)
            del line  # it may be very long
            if value is not None:
                yield value
            elif is_complete:
                text = start.decode(errors="replace").strip()
                yield {"type": "broken", "line": number, "reason": reason, "text": text}


def _skip_line(file: BinaryIO) -> None:
    while (chunk := file.readline(1 << 20)) and not chunk.endswith(b"\n"):
        pass


def parse_line(line: bytes) -> dict[str, Any] | None:
    """Return the JSON object in a line, or None if it is something else or too large."""
    if find_excess(line, MAX_VALUES, MAX_DEPTH):
        return None
    try:
        value = orjson.loads(line)
    except orjson.JSONDecodeError:
        try:  # some programs write lone surrogates, which orjson refuses
            value = orjson.loads(without_lone_surrogates(valid_utf8(line) or b"", rb"\u003f"))
        except orjson.JSONDecodeError:
            return None
    return value if isinstance(value, dict) else None


def parse_first_lines(head: bytes) -> Iterator[dict[str, Any]]:
    """Yield the complete objects in the first bytes of a file."""
    for line in head.split(b"\n")[:20]:
        value = parse_line(line)
        if value is not None:
            yield value


def normalise_time(text: object) -> str | None:
    """Return an ISO time as agh writes it, or None if it is not one."""
    if not isinstance(text, str):
        return None
    if _TIMESTAMP.fullmatch(text):
        return text
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        return None
    time = time.astimezone(UTC) if time.tzinfo else time.replace(tzinfo=UTC)
    return time.strftime("%Y-%m-%dT%H:%M:%S.") + f"{time.microsecond // 1000:03d}Z"
