"""Joining a session: from where to read its log, and who else may have it.

The last turn and what happens from then on are read from one position, so nothing is lost or shown twice.
"""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import partial

from agh.cli.ask import answer_early
from agh.cli.look.turn_view import tell_restored
from agh.console.output import starting
from agh.core.events import Row
from agh.core.named_tuple import NamedTuple
from agh.core.status import describe_holder
from agh.errors import KeeperDied, KeeperGone, SessionNotAttachable
from agh.home import Session
from agh.keeper import client
from agh.sessions.resume import resume
from agh.store import meta
from agh.store.reader import Query, Reader
from agh.store.schema import LANDMARK

RECAP_ROWS = 1000  # of the last turn, when it is long
REMEMBERED = 100  # prompts in the history of the input line
REQUESTS = ("permission", "question")


class Lease(NamedTuple):
    """Who holds a session, as the keeper writes it, and since when."""

    holder: str
    since: str


@contextmanager
def hold_session(
    session: Session, holder: str, ttl: float | None, steal: bool, agent: str | None = None
) -> Iterator[Lease]:
    """Make the session live and hold its lease in the block; with `ttl` for that long even if we die.

    `agent` is another agent that a stopped session is handed over to.
    """
    with starting(session) as spinner:
        on_request = spinner.aside(partial(answer_early, False))
        resumed = resume(session, attach_only=False, lease=None, on_request=on_request, agent=agent)
    if resumed.hello["started"]:
        tell_restored(resumed.hello)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        answer = client.call_on(connection, session, "attach", holder=holder, ttl=ttl, steal=steal)
        yield Lease(holder, str(answer["attach"]["attached_at"]))
        try:
            client.call(session, "detach", holder=holder)
        except (KeeperGone, KeeperDied):
            pass  # with the session, its lease has ended


def last_turn(reader: Reader, running: str | None) -> tuple[str, int, int]:
    """Return the id of the running or else the last turn, its first sequence, and that of the last event."""
    ((turn_id, last),) = reader.fetch(
        "SELECT (SELECT turn_id FROM events WHERE sequence = (SELECT max(sequence) FROM events WHERE "
        f"{LANDMARK} AND type = 'user_message')), (SELECT coalesce(max(sequence), 0) FROM events)"
    )
    turn_id = running or turn_id
    ((start,),) = reader.fetch(
        f"SELECT min(sequence) FROM events WHERE {LANDMARK} AND type = 'user_message' AND turn_id = ?",
        [turn_id],
    )
    return turn_id or "", int(last + 1 if start is None else start), int(last)


def prompts_of(session: Session) -> list[str]:
    """Return the newest prompts of a session, oldest first: the history of the input line.

    They are read from the log, so that a prompt that was redacted is not in the history either.
    """
    with Reader(session) as reader:
        rows = reader.newest(Query(types=("user_message",)), REMEMBERED)
    return [text for row in rows if (text := str(row.parsed().get("text") or ""))]


def check_lease(session: Session, lease: Lease, row: Row) -> None:
    """Raise SessionNotAttachable if the row says that somebody else has the session since we took it.

    The row alone decides: the session's state may be older than it, or newer.
    """
    content = row.parsed() if row.type == "session_attached" else {}
    if content.get("attached_to") not in (None, lease.holder) and content["attached_at"] > lease.since:
        name = meta.read(session).get("name") or session.id
        reason = f"was taken over by {describe_holder(content, datetime.now(UTC))}"
        raise SessionNotAttachable(name, reason, hint=f"agh session attach {name} --steal")
