"""The texts of a session that can be searched, and the query for a search. Pure.

A text is a whole message, not a chunk of one: rows are joined as in the transcript, prompt by prompt. The
texts of a prompt do not depend on anything after the next prompt, so a log that has grown is read again only
from its last prompt.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from agh.core.events import MARKER_REDACTED, Row
from agh.core.markdown import result_text
from agh.core.named_tuple import NamedTuple
from agh.core.redaction.hidden import hidden_sequences
from agh.core.transcript import Assembler, Message

ROLES = ("user", "assistant", "thinking", "tool_call", "tool_result", "marker")
MOST = 200_000  # characters of one text; the rest is not searched
OPEN, CLOSE = "\x02", "\x03"  # around a match in a snippet


class Text(NamedTuple):
    """A message to be searched; `sequence` is the event in which it begins."""

    sequence: int
    turn_id: str
    role: str
    timestamp: str
    text: str


class Collector:
    """Takes rows in order of sequence and returns texts.

    `start` and `at` are the sequence and the time of the open prompt; `hidden` are earlier events whose texts
    must no longer be found: markers that were redacted.
    """

    def __init__(self, start: int = 1, at: str = "") -> None:
        self.start, self.at = start, at
        self.hidden: list[int] = []
        self._start_prompt()

    def feed(self, rows: Iterable[Row]) -> list[Text]:
        """Take rows and return the texts that no later row can change."""
        texts: list[Text] = []
        for row in rows:
            if row.type == "user_message":
                texts += self.finish()
                self.start, self.at = row.sequence, row.timestamp
            elif row.type == MARKER_REDACTED:
                hidden = hidden_sequences([row.content])
                self.hidden += [number for number in hidden if number < self.start]
            self._turns[row.sequence] = row.turn_id
            self._assembler.feed(row)
        return texts

    def finish(self) -> list[Text]:
        """Return the texts of the open prompt so far, and start the next one."""
        texts = [text for message in self._assembler.messages for text in self._texts(message)]
        self._start_prompt()
        return texts

    def _start_prompt(self) -> None:
        self._assembler = Assembler()
        self._turns: dict[int, str] = {}

    def _texts(self, message: Message) -> Iterator[Text]:
        sequence = int(message["id"][4:])
        parts = {message["role"]: _searchable_text(message), "thinking": message.get("thinking") or ""}
        for role, text in parts.items():
            if text.strip():
                yield Text(sequence, self._turns[sequence], role, message["timestamp"], text[:MOST])


def expression(terms: Sequence[str]) -> str:
    """Return a query for FTS5: every term must occur; one with spaces is a phrase, `term*` is a prefix."""
    quoted = []
    for term in terms:
        stem = term.rstrip("*")
        if any(map(str.isalnum, stem)):
            quoted.append('"' + stem.replace('"', '""') + '"' + ("*" if stem != term else ""))
    return " ".join(quoted)


def highlights(snippet: str) -> tuple[str, list[tuple[int, int]]]:
    """Return a snippet without its marks, and the spans that they enclosed, in characters."""
    first, *rest = snippet.split(OPEN)
    text, spans = first.replace(CLOSE, ""), []
    for piece in rest:
        matched, _, after = piece.partition(CLOSE)
        spans.append((len(text), len(text) + len(matched)))
        text += matched + after.replace(CLOSE, "")
    return text, spans


def _searchable_text(message: Message) -> str:
    role = message["role"]
    if role == "tool_call":
        names = [message.get(key) for key in ("tool_name", "title")]
        return "\n".join([*(str(name) for name in names if name), *_strings(message.get("tool_input"))])
    if role == "tool_result":
        return result_text(message.get("tool_result"))
    if role == "marker":
        return "\n".join(_strings([message.get(key) for key in ("kind", "summary", "diagnostic")]))
    return str(message["content"])


def _strings(value: Any) -> Iterator[str]:
    """Yield the strings in a JSON value, without the escapes that JSON text would put into them."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for child in value.values() if isinstance(value, dict) else value:
            yield from _strings(child)
