"""Lines of JSON as other programs leave them: half written at the end, now and then broken.

Promises: the file is only read; a line that is no JSON object is given as such, never passed over in
silence; a last line without its newline is still being written and is not given at all.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import orjson

LONGEST = 64 << 20  # bytes; a longer line is given as broken
_STAMP = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", re.ASCII)


def lines(path: str) -> Iterator[dict[str, Any]]:
    """Each line as an object; a broken one as `{"type": "broken", "line": N, "text": its beginning}`."""
    with open(path, "rb") as file:
        for number, data in enumerate(iter(lambda: file.readline(LONGEST), b""), 1):
            if not data.strip():
                continue
            value = parsed(data)
            if value is not None:
                yield value
            elif data.endswith(b"\n") or len(data) == LONGEST:
                yield {"type": "broken", "line": number, "text": data[:200].decode(errors="replace").strip()}


def parsed(data: bytes) -> dict[str, Any] | None:
    try:
        value = orjson.loads(data)
    except orjson.JSONDecodeError:
        try:  # a lone surrogate is JSON to those who wrote it
            text = json.dumps(json.loads(data.decode(errors="replace")), ensure_ascii=False)
            value = orjson.loads(text.encode(errors="replace"))
        except (ValueError, RecursionError):
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
