"""Where the transcript of a long log can be picked up without reading the log from its start.

A milestone says how many messages the rows up to a sequence make. It stands right before a turn begins,
so nothing after it belongs to a message before it. Milestones are derived: a log without them reads the
same, only slower.
"""

from __future__ import annotations

from typing import NamedTuple

from agh.core.events import MARKER_TYPES, Row
from agh.core.transcript import Message, transcript
from agh.store.reader import Query, Reader
from agh.store.schema import LANDMARK
from agh.store.writer import Writer

STRIDE = 1000  # rows from one to the next, and the rest of a turn


class Milestone(NamedTuple):
    sequence: int
    messages: int  # markers are not counted


START = Milestone(0, 0)


def mark(writer: Writer, before_turn: int) -> None:
    """Set a milestone before the turn that began after this sequence, if the last one is far."""
    with Reader(writer.lock.directory) as reader:
        last = _newest(reader)
        if before_turn - last.sequence < STRIDE:
            return
        found = len(_talk(transcript(_rows(reader, last.sequence, before_turn))))
    with writer.transaction() as connection:
        connection.execute("INSERT INTO milestones VALUES (?, ?)", [before_turn, last.messages + found])


def tail(reader: Reader, count: int) -> tuple[Milestone, list[Message]]:
    """The end of the transcript: at least `count` messages, if there are so many, and where it begins.

    Without markers. Inside a snapshot both come from the same moment.
    """
    last = _newest(reader)
    end = reader.last_sequence()
    talk = _talk(transcript(_rows(reader, last.sequence, end)))
    if len(talk) >= count or last == START:
        return last, talk
    earlier = _newest(reader, last.messages + len(talk) - count)
    return earlier, _talk(transcript(_rows(reader, earlier.sequence, end)))


def markers(reader: Reader) -> list[Message]:
    """All markers: they are few, and found by the index."""
    types = ", ".join(f"'{one}'" for one in MARKER_TYPES)
    columns = ", ".join(Row._fields)
    found = reader.fetch(
        f"SELECT {columns} FROM events WHERE {LANDMARK} AND type IN ({types}) ORDER BY sequence"
    )
    return transcript(map(Row._make, found))


def _newest(reader: Reader, messages: int | None = None) -> Milestone:
    """The last milestone, or the last one with no more than this many messages before it."""
    term = "" if messages is None else f"WHERE messages <= {messages}"
    found = reader.fetch(f"SELECT sequence, messages FROM milestones {term} ORDER BY sequence DESC LIMIT 1")
    return Milestone._make(found[0]) if found else START


def _rows(reader: Reader, after: int, until: int) -> list[Row]:
    rows: list[Row] = []
    while page := reader.page(Query(), after, until):
        rows += page
        after = page[-1].sequence
    return rows


def _talk(messages: list[Message]) -> list[Message]:
    return [message for message in messages if message["role"] != "marker"]
