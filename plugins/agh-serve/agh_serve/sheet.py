"""The transcript as the page shows it: numbered HTML elements, kept up to date row by row. Pure.

An element's number is the sequence of the row that began it, so it is the same whoever asks and whenever:
a page that connects again puts each element where it was. A tool's result is part of its call's element.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from agh.core.events import Row
from agh.core.html.page import fragment
from agh.core.transcript import Assembler, Message

# Events that are no messages, and what the page says of them: a kind, a severity, where the words are.
_NOTICES = {
    "error": ("turn failed", "error", ("error", "stop_reason")),
    "runtime_warning": ("warning", "warning", ("text",)),
    "session_stopped": ("stopped", "info", ("text", "stop_reason")),
    "session_paused": ("paused", "info", ("text", "stop_reason")),
    "session_resumed": ("resumed", "info", ("strategy",)),
}


class Sheet:
    def __init__(self) -> None:
        self._assembler = Assembler()
        self._shown: dict[int, list[Message]] = {}  # a message, or a call and its result
        self._numbers: dict[int, int] = {}  # of a message, by its identity
        self._calls: dict[str, int] = {}
        self._days: dict[int, str] = {}
        self._day = ""
        self._changed: set[int] = set()

    def feed(self, rows: Iterable[Row]) -> None:
        for row in rows:
            changed = self._assembler.feed(row)
            if row.type in _NOTICES:
                changed.append(_notice(row))
            for message in changed:
                number = self._numbers.get(id(message))
                if number is None:
                    number = self._numbers[id(message)] = self._place(row, message)
                self._changed.add(number)

    def changes(self, most: int) -> list[dict[str, Any]]:
        """The first elements that are new or not as they were: their numbers and their HTML."""
        chosen = sorted(self._changed)[:most]
        self._changed.difference_update(chosen)
        made: list[dict[str, Any]] = []
        for number in chosen:
            if number in self._days:
                day = f'<p class="day"><time>{self._days[number]}</time></p>'
                made.append({"number": number - 0.5, "html": day})
            made.append({"number": number, "html": fragment(*self._shown[number][:2])})
        return made

    def _place(self, row: Row, message: Message) -> int:
        role, call = message["role"], str(message.get("tool_call_id"))
        if role == "tool_result" and call in self._calls:
            number = self._calls.pop(call)
            self._shown[number].append(message)
            return number
        if role == "tool_call":
            self._calls[call] = row.sequence
        self._shown[row.sequence] = [message]
        if self._day and row.timestamp[:10] != self._day:
            self._days[row.sequence] = row.timestamp[:10]
        self._day = row.timestamp[:10]
        return row.sequence


def _notice(row: Row) -> Message:
    content = row.parsed()
    kind, severity, keys = _NOTICES[row.type]
    words = next((str(content[key]) for key in keys if content.get(key)), "")
    return {
        "id": row.id,
        "role": "marker",
        "kind": kind,
        "severity": severity,
        "summary": words,
        "timestamp": row.timestamp,
    }
