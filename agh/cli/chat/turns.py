"""The turns of a session as the chat shows them: prompts, answers, requests, and a line after each turn."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from agh.cli.chat.joining import RECAP_ROWS, REQUESTS, Lease, check_lease, last_turn
from agh.cli.chat.status_line import SEPARATOR, footer, format_error
from agh.console import terminal
from agh.core.events import MARKER_CREATED, TURN_END_TYPES, Row
from agh.core.refusal import RefusalTracker
from agh.home import Session
from agh.keeper import client
from agh.store import meta
from agh.store.reader import Reader

if TYPE_CHECKING:
    from agh.cli.chat.dialog import ChatDialog
    from agh.cli.chat.screen import Screen
    from agh.cli.chat.view import ChatView

RING_AFTER = 1.0  # seconds; a shorter turn rings no bell


class Turns:
    """Shows rows in order. `current_id` is the turn that runs, `is_stopped` that the session has ended."""

    def __init__(self, session: Session, lease: Lease, screen: Screen) -> None:
        self.session = session
        self.current_id = ""
        self.is_stopped = False
        self.facts_changed = False
        self.dialog: ChatDialog | None = None
        self._lease, self._screen = lease, screen
        self._view: ChatView | None = None
        self._queued: set[str] = set()
        self._seen: set[str] = set()
        self._start = ""
        self._tracker = RefusalTracker("")
        self._has_joined = False
        self._live_after = 0  # rows up to here happened before we joined
        self._open_requests: list[str] = []  # those that waited when we joined

    def join(self) -> int:
        """In the follower's thread: return the position from which everything is shown."""
        hello = client.call(self.session, "hello")
        self.current_id = str(hello.get("turn_id") or "")
        self._open_requests = _open_requests(self.session)  # before `last`: newer ones come as rows
        with Reader(self.session) as reader:
            _, start, last = last_turn(reader, hello.get("turn_id"))
        self._live_after = last
        position = max(start - 1, last - RECAP_ROWS)
        self._has_joined = position >= last
        if position > start - 1:
            hidden = position - start + 1
            self._screen.print_from_thread(f"… {hidden} earlier events of this turn: /history\n")
        return position

    def take(self, rows: list[Row]) -> None:
        """Show rows; none of them says that the session has ended."""
        view = self._view_of_turns()
        if not rows:
            self._end_session()
            return
        for row in rows:
            self._take_row(row, view)
        view.flush()
        self._has_joined = self._has_joined or rows[-1].sequence >= self._live_after
        if self._has_joined:
            self._ask_open_requests()
        self._screen.redraw()

    def note_sent(self, receipt: dict[str, Any]) -> None:
        """Note that a prompt of ours is queued, or runs."""
        if receipt["turn_id"] not in self._seen:
            self._queued.add(receipt["turn_id"])
        if receipt.get("resumes_at"):
            from agh.cli.guide.turn_failure import limited

            self._screen.print(terminal.clean(limited(self.session, receipt["resumes_at"]).message))
        self._screen.redraw()

    def stage(self, width: int) -> str:
        """Return the block in progress."""
        return self._view.stage(width) if self._view is not None and self.current_id else ""

    def describe(self) -> str:
        """Return what the session does, in a few words."""
        waiting = len(self._queued)
        if self.is_stopped:
            return "stopped"
        if not self._has_joined:
            return "joining"
        if not self.current_id:
            return "starting" if waiting else "idle"
        words = f"running {_age(self._start):.0f} s" if self._start else "running"
        if self.dialog is not None and self.dialog.question is not None:
            words = "the agent asks"
        return words + (f"{SEPARATOR}{waiting} queued" if waiting else "")

    def _take_row(self, row: Row, view: ChatView) -> None:
        if row.type == "user_message":
            self._begin_turn(row)
            view.prompt(row)
        elif row.type in ("session_attached", "session_detached"):
            check_lease(self.session, self._lease, row)
        elif row.type in REQUESTS and not row.parsed().get("decision"):
            self._take_request(row, view)
        elif row.type in TURN_END_TYPES:
            view.settle()
            self._end_turn(row)
        elif row.type != MARKER_CREATED or self._take_marker(row.parsed()):
            view.show(row)
        self._tracker.feed(row)

    def _ask_open_requests(self) -> None:
        """Ask what waited when we joined and may have been asked before the part of the log that is shown."""
        for request_id in self._open_requests:
            if self.dialog is not None:
                self.dialog.add(request_id)
        self._open_requests = []

    def _begin_turn(self, row: Row) -> None:
        self.current_id, self._start = row.turn_id, row.timestamp
        self._tracker = RefusalTracker(row.turn_id)
        self._seen.add(row.turn_id)
        self._queued.discard(row.turn_id)

    def _take_marker(self, content: dict[str, Any]) -> bool:
        """Note what became of a prompt in the queue; return False if the status line says enough of it."""
        kind = content.get("kind")
        if kind == "prompt_dropped":
            self._queued.discard(str(content.get("turn")))
        return kind not in ("prompt_queued", "prompt_accepted")

    def _take_request(self, row: Row, view: ChatView) -> None:
        view.hold(row)
        view.settle()
        if self.dialog is not None:
            self.dialog.add(str(row.parsed().get("request_id")))
        if row.sequence > self._live_after:
            _ring("needs_you", self.session, row)

    def _end_turn(self, row: Row) -> None:
        if row.turn_id == self.current_id:
            self.current_id = ""
        content, start = row.parsed(), self._start if row.turn_id in self._seen else ""
        stop_reason = str(content.get("stop_reason") or ("error" if row.type == "error" else ""))
        refusal = self._tracker.refusal(stop_reason)
        if stop_reason != "cancelled" and (stop_reason != "end_turn" or refusal is not None):
            self._explain(row, content, refusal)
        width = self._screen.columns
        self._screen.print(footer(self.session, row.turn_id, start, row.timestamp, stop_reason, width))
        self.facts_changed = True
        if row.sequence > self._live_after and start and _age(start) >= RING_AFTER:
            _ring("failed" if row.type == "error" else "turn_end", self.session, row, _age(start))

    def _explain(self, row: Row, content: dict[str, Any], refusal: Any) -> None:
        """Say why a turn did not end well."""
        from agh.cli.guide.turn_failure import failure_of

        with Reader(self.session) as reader:
            ids = reader.fetch("SELECT id FROM inputs WHERE turn_id = ?", [row.turn_id])
        error = failure_of(self.session, ids[0][0] if ids else 0, content, refusal)
        self._screen.print(format_error(error))

    def _end_session(self) -> None:
        """Say that the session has stopped: the next prompt resumes it."""
        self.is_stopped, self.current_id = True, ""
        self._queued.clear()
        self._view_of_turns().settle()
        from agh.errors import KeeperDied
        from agh.keeper.failures import explain_end
        from agh.store.views import session_view

        view = session_view(self.session)
        if view.get("failure"):
            error = explain_end(self.session, KeeperDied(self.session.id))
            self._screen.print(terminal.styled(terminal.clean(error.message), "error"))
        self._screen.print("the session has stopped; your next prompt resumes it")
        self.facts_changed = True

    def _view_of_turns(self) -> ChatView:
        if self._view is None:
            from agh.cli.chat.view import ChatView  # after the first prompt is there: it imports rich

            workspace = meta.read(self.session)["workspace_path"]
            self._view = ChatView(
                self.session.id, workspace, self._screen.print, lambda: self._screen.columns
            )
        return self._view


def _open_requests(session: Session) -> list[str]:
    """Return the ids of the permission requests and questions that wait."""
    from agh.sessions.requests.permissions import requests
    from agh.sessions.requests.questions import questions

    waiting = [*requests(session, everything=False), *questions(session, everything=False)]
    return [request["request_id"] for request in waiting]


def _age(at: str) -> float:
    return max(0.0, (datetime.now(UTC) - datetime.fromisoformat(at)).total_seconds())


def _ring(event: str, session: Session, row: Row, elapsed: float = 0.0) -> None:
    from agh.cli.inbox.ring import ring_for_row

    ring_for_row(event, session, row, elapsed)
