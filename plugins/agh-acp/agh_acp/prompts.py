"""The client's prompts of one session, from the request to the end of their turns.

Promises: a prompt is in the durable queue or was refused; its answer is sent after everything else of its
turn. A prompt is known by its key in the queue, so it is recognised in the log even before its receipt is
here.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from agh.core.events import Row
from agh.errors import AghError
from agh.home import Session
from agh.keeper import client as keeper
from agh.sessions.prompt import send
from agh.sessions.queue import cancel_inputs
from agh.sessions.start import ensure_live
from agh.store.reader import Reader
from agh_acp.failures import INTERNAL_ERROR, error_of, turn_error
from agh_acp.wire import Message, Wire

CANCELLED = {"stopReason": "cancelled"}


@dataclass
class Prompt:
    """A prompt that has not been answered."""

    request_id: Any
    key: str
    input_id: int | None = None
    turn_id: str | None = None
    cancelled: bool = False


class Prompts:
    """The prompts that wait for the ends of their turns."""

    def __init__(self, session: Session, wire: Wire) -> None:
        self._session, self._wire = session, wire
        self._lock = threading.Lock()
        self._open: dict[str, Prompt] = {}  # by key
        self._turns: dict[str, str] = {}  # keys, by the ids of turns

    def expect(self, request_id: Any) -> Prompt:
        """Note a prompt that is going to be sent."""
        prompt = Prompt(request_id, f"acp-{os.urandom(8).hex()}")
        with self._lock:
            self._open[prompt.key] = prompt
        return prompt

    def send(
        self,
        prompt: Prompt,
        blocks: list[dict[str, Any]],
        mcp_servers: list[dict[str, Any]],
        when_live: Callable[[], None],
    ) -> None:
        """Queue a prompt, making the session live first if it is not."""
        try:
            if not prompt.cancelled:
                ensure_live(self._session, mcp_servers=mcp_servers)
                when_live()
            if prompt.cancelled:
                self._finish(prompt.key, {"result": CANCELLED})
                return
            receipt, _ = send(self._session, blocks, idempotency_key=prompt.key)
        except Exception as error:
            self.refuse(prompt, error)
            return
        prompt.input_id, prompt.turn_id = receipt["input_id"], receipt["turn_id"]
        if prompt.cancelled:
            self._cancel(prompt)

    def refuse(self, prompt: Prompt, error: Exception) -> None:
        """Answer a prompt that could not be sent."""
        self._finish(prompt.key, {"error": error_of(error)})

    def cancel(self) -> None:
        """Cancel the client's prompts; if it has none, the turn that is running."""
        with self._lock:
            prompts = list(self._open.values())
            for prompt in prompts:
                prompt.cancelled = True
        self._cancel_all(prompts)
        if not prompts:
            self._cancel_turn(None)

    def cancel_request(self, request_id: Any) -> None:
        """Cancel the prompt that is the request with this id, if there is one."""
        with self._lock:
            prompts = [prompt for prompt in self._open.values() if prompt.request_id == request_id]
            for prompt in prompts:
                prompt.cancelled = True
        self._cancel_all(prompts)

    def is_own(self, turn_id: str) -> bool:
        """Tell whether a turn is that of a prompt of this client."""
        if turn_id in self._turns:
            return True
        with Reader(self._session) as reader:
            rows = reader.fetch("SELECT idempotency_key FROM inputs WHERE turn_id = ?", [turn_id])
        with self._lock:
            if rows and rows[0][0] in self._open:
                self._turns[turn_id] = rows[0][0]
                return True
        return False

    def end(self, row: Row) -> bool:
        """Answer the prompt whose turn a row ends; return whether there was one."""
        if not self._open or not self.is_own(row.turn_id):
            return False
        content = row.parsed()
        if row.type == "done" or content.get("stop_reason") == "cancelled":
            answer: Message = {"result": turn_result(content)}
        else:
            answer = {"error": turn_error(content, row.agent_name)}
        self._finish(self._turns.pop(row.turn_id, ""), answer)
        return True

    def drop(self, turn_id: str) -> None:
        """Answer a prompt that was taken out of the queue."""
        if self._open and self.is_own(turn_id):
            self._finish(self._turns.pop(turn_id, ""), {"result": CANCELLED})

    def fail(self, reason: str) -> None:
        """Answer the prompts that were accepted, and whose keeper is gone."""
        with self._lock:
            keys = [key for key, prompt in self._open.items() if prompt.input_id is not None]
        error = {"code": INTERNAL_ERROR, "message": reason, "data": {"session_id": self._session.id}}
        for key in keys:
            self._finish(key, {"error": error})

    def leave(self) -> None:
        """Answer all prompts of a session that the client has closed. Their turns go on."""
        with self._lock:
            keys = list(self._open)
        for key in keys:
            self._finish(key, {"result": CANCELLED})

    def has_accepted(self) -> bool:
        """Tell whether a prompt is in the queue or with the agent."""
        with self._lock:
            return any(prompt.input_id is not None for prompt in self._open.values())

    def _finish(self, key: str, answer: Message) -> None:
        with self._lock:
            prompt = self._open.pop(key, None)
        if prompt is not None:
            self._wire.send([{"id": prompt.request_id, **answer}])

    def _cancel_all(self, prompts: list[Prompt]) -> None:
        """Cancel prompts, the last one first: else the end of the running turn would start the next."""
        for prompt in reversed(prompts):
            if prompt.input_id is None:  # its receipt may be on its way
                with Reader(self._session) as reader:
                    sql = "SELECT id, turn_id FROM inputs WHERE idempotency_key = ?"
                    rows = reader.fetch(sql, [prompt.key])
                if rows:
                    prompt.input_id, prompt.turn_id = rows[0]
            if prompt.input_id is not None:
                self._cancel(prompt)

    def _cancel(self, prompt: Prompt) -> None:
        """Take a prompt out of the queue, or cancel its turn if it has begun."""
        try:
            cancel_inputs(self._session, prompt.input_id)
        except AghError:
            self._cancel_turn(prompt.turn_id)

    def _cancel_turn(self, turn_id: str | None) -> None:
        try:
            keeper.call(self._session, "cancel", turn_id=turn_id)
        except AghError:
            pass  # it has ended


def turn_result(content: dict[str, Any]) -> dict[str, Any]:
    """Return the answer to a prompt, from the row that ends its turn: the agent's own if there is one."""
    raw = content.get("raw")
    result = raw.get("result") if isinstance(raw, dict) else None
    reason = str(content.get("stop_reason") or "end_turn")
    if isinstance(result, dict) and isinstance(result.get("stopReason"), str):
        return result
    return {"stopReason": reason}
