"""A prompt that comes at the very moment when its session is opened."""

from __future__ import annotations

import threading
from typing import Any

import orjson
import pytest
from agh_acp import methods, server
from agh_acp.attachment import Attachment
from agh_acp.connection import Connection, Options
from agh_acp.wire import Message, Wire

from tests.support.live import Live
from tests.support.wait import wait_until


class Client:
    """A client in this process: it sends its prompt from within the answer that names the session."""

    def __init__(self) -> None:
        self.received: list[Message] = []
        self.connection = Connection(Wire(self._take), Options(agent="echo"))

    def send(self, number: int, method: str, **params: Any) -> None:
        message = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
        server.take_line(self.connection, orjson.dumps(message))

    def _take(self, messages: list[Message]) -> None:
        self.received += messages
        for message in messages:
            if message.get("id") in (1, 2) and "result" in message:
                block = {"type": "text", "text": f"/say number {message['id']}"}
                session = message["result"]["sessionId"]
                self.send(10 + message["id"], "session/prompt", sessionId=session, prompt=[block])

    def answer(self, number: int) -> Message:
        """Wait for the answer to a request, and return it."""
        wait_until(lambda: any(message.get("id") == number for message in self.received), what=str(number))
        return next(message for message in self.received if message.get("id") == number)

    def text(self) -> str:
        """Return all that the agent has said."""
        updates = [message["params"]["update"] for message in self.received if "params" in message]
        chunks = [update for update in updates if update["sessionUpdate"] == "agent_message_chunk"]
        return "".join(chunk["content"]["text"] for chunk in chunks)


def test_it_is_answered_once_and_shown_once(live: Live, monkeypatch: pytest.MonkeyPatch) -> None:
    """For a new session and for a fork; the threads that open them are slow."""
    attach, start = methods.attach, Attachment.start

    def attach_slowly(*args: Any) -> None:
        threading.Event().wait(0.15)
        attach(*args)

    def start_slowly(attachment: Attachment, after: int) -> None:
        threading.Event().wait(0.4)
        start(attachment, after)

    monkeypatch.setattr(methods, "attach", attach_slowly)
    monkeypatch.setattr(Attachment, "start", start_slowly)
    monkeypatch.setenv("AGH_HOME", str(live.home))
    client = Client()
    try:
        client.send(0, "initialize", protocolVersion=1, clientCapabilities={})
        client.send(1, "session/new", cwd=str(live.workspace), mcpServers=[])
        assert client.answer(11)["result"]["stopReason"] == "end_turn"
        origin = client.answer(1)["result"]["sessionId"]
        client.send(2, "session/fork", sessionId=origin, cwd=str(live.workspace), mcpServers=[])
        assert client.answer(12)["result"]["stopReason"] == "end_turn"
        assert client.text() == "number 1number 2"
    finally:
        server.finish(client.connection)
