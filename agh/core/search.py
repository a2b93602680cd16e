"""What can be found in a session, and how words become a query. Pure.

A text is a whole message, not a chunk of one: rows are put together as in the transcript, prompt by
prompt. What belongs to one prompt does not depend on what comes after the next, so a log that grew is
read again from its last prompt only.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from agh.core.events import MARKER_REDACTED, Row
from agh.core.markdown import result_text
from agh.core.transcript import Assembler, Message

ROLES = ("user", "assistant", "thinking", "tool_call", "tool_result", "marker")
MOST = 200_000  # characters of one text; more of it is not searched
OPEN, CLOSE = "\x02", "\x03"  # around what matched, in a snippet


class Text(NamedTuple):
    """A message as it is searched; `sequence` is the event in which it begins."""

    sequence: int
    turn_id: str
    role: str
    timestamp: str
    text: str


class Collector:
    """Takes rows in order of sequence and gives texts; `start` is where the open prompt begins, `at` when.

    `hidden` are events before it whose texts must not be found any more: markers that were redacted.
    """

    def __init__(self, start: int = 1, at: str = "") -> None:
        self.start, self.at = start, at
        self.hidden: list[int] = []
        self._begin()

    def feed(self, rows: Iterable[Row]) -> list[Text]:
        """The texts that no later row can change."""
        found: list[Text] = []
        for row in rows:
            if row.type == "user_message":
                found += self.finish()
                self.start, self.at = row.sequence, row.timestamp
            elif row.type == MARKER_REDACTED:
                number = str(row.parsed().get("marker_id")).removeprefix("evt-")
                if number.isdecimal() and int(number) < self.start:
                    self.hidden.append(int(number))
            self._turns[row.sequence] = row.turn_id
            self._assembler.feed(row)
        return found

    def finish(self) -> list[Text]:
        """The texts of the open prompt, as far as they go."""
        found = [text for message in self._assembler.messages for text in self._texts(message)]
        self._begin()
        return found

    def _begin(self) -> None:
        self._assembler = Assembler()
        self._turns: dict[int, str] = {}

    def _texts(self, message: Message) -> Iterator[Text]:
        sequence = int(message["id"][4:])
        parts = {message["role"]: _words(message), "thinking": message.get("thinking") or ""}
        for role, text in parts.items():
            if text.strip():
                yield Text(sequence, self._turns[sequence], role, message["timestamp"], text[:MOST])


def expression(words: Sequence[str]) -> str:
    """A query for FTS5: every word must occur, one with spaces as a phrase, `word*` as a beginning."""
    terms = []
    for word in words:
        stem = word.rstrip("*")
        if any(map(str.isalnum, stem)):
            terms.append('"' + stem.replace('"', '""') + '"' + ("*" if stem != word else ""))
    return " ".join(terms)


def highlights(snippet: str) -> tuple[str, list[tuple[int, int]]]:
    """A snippet without its marks, and where they stood: pairs of offsets in characters."""
    first, *rest = snippet.split(OPEN)
    text, spans = first.replace(CLOSE, ""), []
    for piece in rest:
        matched, _, after = piece.partition(CLOSE)
        spans.append((len(text), len(text) + len(matched)))
        text += matched + after.replace(CLOSE, "")
    return text, spans


def _words(message: Message) -> str:
    role = message["role"]
    if role == "tool_call":
        named = [message.get(key) for key in ("tool_name", "title")]
        return "\n".join([*(str(one) for one in named if one), *_leaves(message.get("tool_input"))])
    if role == "tool_result":
        return result_text(message.get("tool_result"))
    if role == "marker":
        return "\n".join(_leaves([message.get(key) for key in ("kind", "summary", "diagnostic")]))
    return str(message["content"])


def _leaves(value: Any) -> Iterator[str]:
    """The texts in a JSON value; as JSON they would have escapes in them, which are no words."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for one in value.values() if isinstance(value, dict) else value:
            yield from _leaves(one)
