"""The transcript as the page shows it: numbered HTML elements, updated row by row. Does no I/O.

An element's number is the sequence of the row that started it, so it is the same for every reader at any
time, and a page that reconnects puts each element where it was. A tool's result is part of its call's
element.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from agh.core.events import Row
from agh.core.html.page import fragment
from agh.core.transcript import Assembler, Message

# How the page shows events that are not messages: the kind, the severity, the keys that may have the text.
_NOTICES = {
    "error": ("turn failed", "error", ("error", "stop_reason")),
    "runtime_warning": ("warning", "warning", ("text",)),
    "session_stopped": ("stopped", "info", ("text", "stop_reason")),
    "session_paused": ("paused", "info", ("text", "stop_reason")),
    "session_resumed": ("resumed", "info", ("strategy",)),
}


class LiveTranscript:
    """A transcript that grows, and the elements that changed since they were last taken."""

    def __init__(self) -> None:
        self._assembler = Assembler()
        self._elements: dict[int, list[Message]] = {}  # a message, or a tool call and its result
        self._numbers: dict[int, int] = {}  # the element of a message, by the message's identity
        self._open_calls: dict[str, int] = {}  # the element of a tool call that has no result yet
        self._new_days: dict[int, str] = {}  # the date to show above an element
        self._last_day = ""
        self._changed: set[int] = set()

    def add_rows(self, rows: Iterable[Row]) -> None:
        for row in rows:
            changed = self._assembler.feed(row)
            if row.type in _NOTICES:
                changed.append(_build_notice(row))
            for message in changed:
                number = self._numbers.get(id(message))
                if number is None:
                    number = self._numbers[id(message)] = self._add_message(row, message)
                self._changed.add(number)

    def take_changes(self, limit: int) -> list[dict[str, Any]]:
        """Return the first elements that are new or have changed: their numbers and their HTML."""
        numbers = sorted(self._changed)[:limit]
        self._changed.difference_update(numbers)
        elements: list[dict[str, Any]] = []
        for number in numbers:
            if number in self._new_days:
                day = f'<p class="day"><time>{self._new_days[number]}</time></p>'
                elements.append({"number": number - 0.5, "html": day})
            elements.append({"number": number, "html": fragment(*self._elements[number][:2])})
        return elements

    def _add_message(self, row: Row, message: Message) -> int:
        """Add the message to the element it belongs to, and return that element's number."""
        role, call_id = message["role"], str(message.get("tool_call_id"))
        if role == "tool_result" and call_id in self._open_calls:
            number = self._open_calls.pop(call_id)
            self._elements[number].append(message)
            return number
        if role == "tool_call":
            self._open_calls[call_id] = row.sequence
        self._elements[row.sequence] = [message]
        day = row.timestamp[:10]
        if self._last_day and day != self._last_day:
            self._new_days[row.sequence] = day
        self._last_day = day
        return row.sequence


def _build_notice(row: Row) -> Message:
    content = row.parsed()
    kind, severity, keys = _NOTICES[row.type]
    summary = next((str(content[key]) for key in keys if content.get(key)), "")
    return {
        "id": row.id,
        "role": "marker",
        "kind": kind,
        "severity": severity,
        "summary": summary,
        "timestamp": row.timestamp,
    }
