"""How session/load and session/resume end: well, or in one of the ways seen in real agents."""

import os

from agh_echo import updates
from agh_echo.kinds import Frame, Steps
from agh_echo.loop import FOREVER, Loop
from agh_echo.session import Session
from agh_echo.wire import Failure

INTERNAL = {
    "not-found-text": "",
    "unclear": ": service failure",
    "unclear-listed": ": service failure",
    "unclear-missing": ": service failure",
    "error": ": database is locked",
}


def unknown_session(session_id: str) -> Failure:
    return Failure(-32002, f"Resource not found: {session_id}", {"uri": session_id})


def fail(loop: Loop, outcome: str, session_id: str) -> Steps:
    """Fail in the way that the outcome names, if it names one."""
    if outcome == "hang":
        yield FOREVER
    if outcome == "die":
        loop.wire.flush()
        os._exit(1)
    if outcome == "not-found":
        raise unknown_session(session_id)
    if outcome == "method-not-found":
        raise Failure(-32601, "Method not found")
    if outcome in INTERNAL:
        details = {"details": f"Session not found: {session_id}"} if outcome == "not-found-text" else None
        raise Failure(-32603, f"Internal error{INTERNAL[outcome]}", details)


def replay(loop: Loop, session: Session, outcome: str, replays: bool) -> None:
    """Send the history if this method replays it; late, after the answer, if the outcome says so."""
    history = updates.replay(session.records)
    if outcome == "late":
        loop.start(_replay_late(loop, session, history))
    elif replays:
        _send(loop, session, history)


def _replay_late(loop: Loop, session: Session, history: list[Frame]) -> Steps:
    half = len(history) // 2
    yield 0.0
    _send(loop, session, history[:half])
    yield 0.1
    _send(loop, session, history[half:])


def _send(loop: Loop, session: Session, history: list[Frame]) -> None:
    for update in history:
        loop.wire.notify("session/update", {"sessionId": session.id, "update": update})
