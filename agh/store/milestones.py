"""Milestones: points from which the transcript of a long log can be read without reading all of it.

A milestone records how many messages the rows up to a sequence add up to. It is set just before a turn
starts, so no row after it belongs to an earlier message. Milestones are derived: without them a log
reads the same, only slower.
"""

from __future__ import annotations

from collections.abc import Callable

from agh.core.events import MARKER_TYPES, Row
from agh.core.named_tuple import NamedTuple
from agh.core.transcript import Message, count_messages, transcript
from agh.store.reader import Query, Reader
from agh.store.rows import insert
from agh.store.schema import LANDMARK
from agh.store.writer import Writer

STRIDE = 250  # the fewest rows between two milestones


class Milestone(NamedTuple):
    """A sequence, and how many messages the rows up to it add up to."""

    sequence: int
    messages: int  # not counting markers


START = Milestone(0, 0)


def mark(writer: Writer, before_turn: int) -> None:
    """Set a milestone before the turn that starts after this sequence, if the last is far back."""
    with Reader(writer.lock.session) as reader:
        last = _newest(reader)
        if before_turn - last.sequence < STRIDE:
            return
        new = count_messages(_rows(reader, last.sequence, before_turn))
    with writer.transaction() as connection:
        insert(connection, "milestones", {"sequence": before_turn, "messages": last.messages + new})


def tail(reader: Reader, count: int) -> tuple[Milestone, list[Message]]:
    """Return the last messages of the transcript, and the milestone where they start.

    At least `count` messages, if there are that many; no markers. Call it in a snapshot to get both from the
    same moment.
    """
    last, _, messages = _since_milestone(reader, count)
    return last, messages


def redacted_tail(
    reader: Reader, count: int, redact: Callable[[list[Row]], list[Row]]
) -> tuple[Milestone, list[Message]]:
    """Return the messages of the last turns like `tail`, more than `count`, from rows that were redacted.

    Only these turns are redacted: 20 messages of 20,000 events then take 52 ms of CPU time, and not 237.
    """
    last, rows, messages = _since_milestone(reader, count + 1)
    start = _start_of_last(rows, count)
    talk = _without_markers(transcript(redact(rows[start:])))
    if start:
        last = Milestone(rows[start - 1].sequence, last.messages + len(messages) - len(talk))
    return last, talk


def _since_milestone(reader: Reader, count: int) -> tuple[Milestone, list[Row], list[Message]]:
    """Return the newest milestone that has `count` messages after it, and its rows and messages."""
    last = _newest(reader)
    end = reader.last_sequence()
    rows = _rows(reader, last.sequence, end)
    messages = _without_markers(transcript(rows))
    if len(messages) < count and last != START:
        last = _newest(reader, last.messages + len(messages) - count)
        rows = _rows(reader, last.sequence, end)
        messages = _without_markers(transcript(rows))
    return last, rows, messages


def _start_of_last(rows: list[Row], count: int) -> int:
    """Return the index of the newest turn with more than `count` messages from there on; or 0.

    More, because a secret may begin in the message before them.
    """
    end, messages = len(rows), 0
    for start in reversed([index for index, row in enumerate(rows) if row.type == "user_message"]):
        messages += count_messages(rows[start:end])
        if messages > count:
            return start
        end = start
    return 0


def markers(reader: Reader) -> list[Message]:
    """Return all markers. They are few, and an index finds them."""
    types = ", ".join(f"'{event_type}'" for event_type in MARKER_TYPES)
    columns = ", ".join(Row._fields)
    rows = reader.fetch(
        f"SELECT {columns} FROM events WHERE {LANDMARK} AND type IN ({types}) ORDER BY sequence"
    )
    return transcript(map(Row._make, rows))


def _newest(reader: Reader, messages: int | None = None) -> Milestone:
    """Return the last milestone, or the last one with at most this many messages before it."""
    term = "" if messages is None else f"WHERE messages <= {messages}"
    rows = reader.fetch(f"SELECT sequence, messages FROM milestones {term} ORDER BY sequence DESC LIMIT 1")
    return Milestone._make(rows[0]) if rows else START


def _rows(reader: Reader, after: int, until: int) -> list[Row]:
    rows: list[Row] = []
    while page := reader.page(Query(), after, until):
        rows += page
        after = page[-1].sequence
    return rows


def _without_markers(messages: list[Message]) -> list[Message]:
    return [message for message in messages if message["role"] != "marker"]
