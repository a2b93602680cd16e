"""A session that the client has open: what happens in its log goes to the client, whoever caused it.

Promises: the client sees every row after the one it starts at, in order, and nothing that is not on disk. It
sees other clients' prompts too, but not its own, which it shows by itself.
"""

from __future__ import annotations

import os
import threading
from typing import Any

from agh.core.events import MARKER_CREATED, TURN_END_TYPES, Row
from agh.errors import AghError
from agh.home import Session
from agh.store import lock as locks
from agh.store import meta
from agh.store.catch_up import await_metadata
from agh.store.follow import follow
from agh.store.reader import EVERYTHING, Reader
from agh.store.watch import Watch
from agh_acp.capabilities import Client
from agh_acp.hands import Hands
from agh_acp.prompts import Prompts
from agh_acp.requests import Requests
from agh_acp.updates import notice, stored_notification, updates_of
from agh_acp.wire import Message, Wire
from agh_acp.worker import Workers

TICK = 1.0  # seconds after which it looks whether the client has left
_ENDED = "the session ended before the turn did; agh session status {0} says why, and a prompt resumes it"


class Attachment:
    """One session of the client."""

    def __init__(
        self,
        session: Session,
        wire: Wire,
        client: Client,
        workers: Workers,
        prompts: Prompts,
        hands: Hands,
        mcp_servers: list[dict[str, Any]],
    ) -> None:
        self.session, self.prompts, self.hands, self.mcp_servers = session, prompts, hands, mcp_servers
        self._wire, self._client = wire, client
        self._requests = Requests(session, wire, client, workers.start)
        self._after = 0
        self._title: str | None = None
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def start(self, after: int) -> None:
        """Follow the log from the row after this sequence; first ask what already waits for an answer."""
        self._after = after
        self._thread.start()

    def close(self) -> None:
        """Stop following, and return when nothing more is sent. The session continues."""
        self.hands.close()
        self._closed.set()
        self._thread.join()

    def leave(self) -> None:
        """Stop following soon: the client is gone."""
        self.hands.close()
        self._closed.set()

    def _run(self) -> None:
        try:
            self._ask_waiting()
            while not self._closed.is_set():
                stamp = self._stamp()
                self.hands.lend_soon()
                self._follow()
                self._note_end()
                self._wait_for_change(stamp)
        except (AghError, OSError) as error:  # it was deleted, or its log is damaged
            self.prompts.fail(str(error))
        finally:
            self._requests.withdraw_all()

    def _follow(self) -> None:
        """Pass on what is in the log, then what is added to it, until the session ends or is closed."""
        for batch in follow([(self.session, self._after)], EVERYTHING, tick=TICK):
            if self._closed.is_set():
                return
            if not batch.rows:
                self.hands.lend_soon()
            self._take(batch.rows)

    def _take(self, rows: list[Row]) -> None:
        messages: list[Message] = []
        for row in rows:
            self._after = row.sequence
            if row.type in TURN_END_TYPES:
                await_metadata(self.session, row.sequence)
                messages += self._title_change()
                self._flush(messages)
                if not self.prompts.end(row) and row.type == "error":
                    text = str(row.parsed().get("error") or "the turn failed")
                    messages.append(self._update(notice(self._client, row, text, "error")))
            elif row.type in ("permission", "question"):
                self._flush(messages)
                if request := self._requests.take(row):
                    messages.append(self._update(notice(self._client, row, request, "info")))
            elif row.type != "user_message" or not self.prompts.is_own(row.turn_id):
                messages += self._messages(row)
        self._flush(messages)

    def _messages(self, row: Row) -> list[Message]:
        """Return what a row is for the client; a prompt that was dropped is answered."""
        content = row.parsed() if row.type in (MARKER_CREATED, "system") else {}
        if content.get("kind") == "prompt_dropped":
            self.prompts.drop(str(content.get("turn")))
        notification = stored_notification(row, content) if content else None
        if notification is not None:
            params = notification.get("params")
            if isinstance(params, dict) and "sessionId" in params:
                params = {**params, "sessionId": self.session.id}
            return [{"method": notification["method"], "params": params}]
        return [self._update(update) for update in updates_of(row, self._client, self.hands.shown_terminals)]

    def _update(self, update: dict[str, Any]) -> Message:
        return {"method": "session/update", "params": {"sessionId": self.session.id, "update": update}}

    def _flush(self, messages: list[Message]) -> None:
        if messages:
            self._wire.send(messages)
            messages.clear()

    def _title_change(self) -> list[Message]:
        """Return the session's title if it is a new one, such as that which agh takes from the prompt."""
        metadata = meta.read(self.session)
        title = metadata.get("name") or metadata.get("title")
        if title == self._title or not title:
            return []
        self._title = title
        update = {"sessionUpdate": "session_info_update", "title": title, "updatedAt": metadata["updated_at"]}
        return [self._update(update)]

    def _ask_waiting(self) -> None:
        """Ask the client what the agent asked before this row, and what still waits."""
        where = "type IN ('permission', 'question') AND sequence <= ?"
        with Reader(self.session) as reader:
            numbers = reader.fetch(f"SELECT sequence FROM events WHERE {where}", [self._after])
            waiting = reader.fetch("SELECT request_id FROM permissions WHERE status = 'pending'")
            if not numbers:
                return
            rows = [row for (number,) in numbers for row in reader.page(EVERYTHING, number - 1, number)]
        pending = {request_id for (request_id,) in waiting}
        for row in rows:
            content = row.parsed()
            if not content.get("decision") and (
                row.type == "question" or content.get("request_id") in pending
            ):
                self._requests.take(row)

    def _note_end(self) -> None:
        """Answer the prompts that nobody works on any more, once everything in the log was passed on."""
        if self._closed.is_set() or not self.prompts.has_accepted() or locks.is_held(self.session):
            return
        with Reader(self.session) as reader:
            if reader.last_sequence() > self._after:
                return
        self.prompts.fail(_ENDED.format(self.session.id))

    def _wait_for_change(self, stamp: tuple[int, int]) -> None:
        """Wait until the session is live again, or has changed since the stamp."""
        with Watch() as watch:
            watch.add(self.session)
            while not (self._closed.is_set() or locks.is_held(self.session) or self._stamp() != stamp):
                watch.wait(TICK)

    def _stamp(self) -> tuple[int, int]:
        stats = [os.stat(os.path.join(self.session, name)) for name in ("meta.json", "events.db")]
        return stats[0].st_mtime_ns, stats[1].st_mtime_ns
