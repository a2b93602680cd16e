"""A raw ACP client: a real `agh acp` behind two pipes, and what it sends, message by message."""

from __future__ import annotations

import json
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

from tests.support.live import Live, Session
from tests.support.wait import PATIENCE, wait_until

Message = dict[str, Any]
CAPABILITIES = {
    "fs": {"readTextFile": False, "writeTextFile": False},
    "session": {"notices": {}, "compaction": {}, "configOptions": {"boolean": {}}},
    "elicitation": {"form": {}, "url": {}},
}


class Client:
    """An editor, as far as the protocol goes. It answers requests with `answers`, by method."""

    def __init__(self, live: Live, *options: str, env: dict[str, str] | None = None) -> None:
        self.live = live
        self.process = self._start(*options, env=env)
        self.messages: list[Message] = []
        self.answers: dict[str, Callable[[Message], Any]] = {}
        self.frames: list[tuple[str, Message]] = []  # all of them, and who sent each
        self._last_id = 0
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def initialize(self, **capabilities: Any) -> Message:
        params = {"protocolVersion": 1, "clientCapabilities": {**CAPABILITIES, **capabilities}}
        return self.call("initialize", **params)

    def new(self, **params: Any) -> Session:
        result = self.call("session/new", **{"cwd": str(self.live.workspace), "mcpServers": [], **params})
        return Session(self.live, result["sessionId"])

    def start_prompt(self, session: Session, text: str, *blocks: Message) -> int:
        prompt = [{"type": "text", "text": text}, *blocks]
        return self.start("session/prompt", sessionId=session.id, prompt=prompt)

    def prompt(self, session: Session, text: str, *blocks: Message) -> Message:
        return self.result(self.start_prompt(session, text, *blocks))

    def load(self, session: Session) -> list[Message]:
        """Load a session; return the updates that came before the reply."""
        before = len(self.messages)
        params = {"cwd": str(self.live.workspace), "mcpServers": []}
        number = self.start("session/load", sessionId=session.id, **params)
        self.result(number)
        frames = self.messages[before:]
        (end,) = [index for index, frame in enumerate(frames) if frame.get("id") == number]
        return [
            frame["params"]["update"] for frame in frames[:end] if frame.get("method") == "session/update"
        ]

    # The wire.

    def start(self, method: str, **params: Any) -> int:
        """Send a request; return its id."""
        self._last_id += 1
        self.send({"jsonrpc": "2.0", "id": self._last_id, "method": method, "params": params})
        return self._last_id

    def notify(self, method: str, **params: Any) -> None:
        self.send({"jsonrpc": "2.0", "method": method, "params": params})

    def send(self, message: Any) -> None:
        if isinstance(message, dict):
            self.frames.append(("client", message))
        self.write(json.dumps(message).encode() + b"\n")

    def write(self, data: bytes) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(data)
        self.process.stdin.flush()

    def answer(self, number: int | None) -> Message:
        """Wait for the answer to a request."""

        def look() -> Message | None:
            return next((m for m in self.messages if "method" not in m and m.get("id") == number), None)

        return wait_until(look, PATIENCE, what=f"the answer to {number}")

    def result(self, number: int) -> Message:
        answer = self.answer(number)
        assert "result" in answer, answer
        result: Message = answer["result"]
        return result

    def call(self, method: str, **params: Any) -> Message:
        return self.result(self.start(method, **params))

    def error(self, method: str, **params: Any) -> Message:
        answer = self.answer(self.start(method, **params))
        assert "error" in answer, answer
        error: Message = answer["error"]
        return error

    def requests(self, method: str) -> list[Message]:
        return [message for message in self.messages if message.get("method") == method]

    def wait_for_request(self, method: str) -> Message:
        return wait_until(lambda: self.requests(method), what=method)[-1]

    def reply(self, request: Message, result: Any) -> None:
        self.send({"jsonrpc": "2.0", "id": request["id"], "result": result})

    def updates(self, session: Session | None = None, kind: str | None = None) -> list[Message]:
        return [
            message["params"]["update"]
            for message in self.requests("session/update")
            if (session is None or message["params"]["sessionId"] == session.id)
            and kind in (None, message["params"]["update"]["sessionUpdate"])
        ]

    def text(self, session: Session, kind: str = "agent_message_chunk") -> str:
        return "".join(update["content"].get("text", "") for update in self.updates(session, kind))

    def close(self) -> int:
        """Close the client's end, as an editor does that quits; return how the program ended."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        return self.process.wait(PATIENCE)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(PATIENCE)

    def _start(self, *options: str, env: dict[str, str] | None) -> subprocess.Popen[bytes]:
        return self.live.start("acp", *options, stdin=subprocess.PIPE, env=env)

    def _lines(self) -> Iterator[bytes]:
        """Yield what the program prints, until its end or until the end of the test closes the pipe."""
        assert self.process.stdout is not None
        with suppress(ValueError):
            yield from self.process.stdout

    def _read(self) -> None:
        for line in self._lines():
            message = json.loads(line)
            assert message["jsonrpc"] == "2.0"
            self.frames.append(("agent", message))
            self.messages.append(message)
            answer = self.answers.get(message.get("method", ""))
            if answer is not None and "id" in message:
                with suppress(ValueError, BrokenPipeError):  # the test may have closed the client by now
                    self.reply(message, answer(message))


def text_of(updates: list[Message], kind: str) -> list[str]:
    """Return the texts of the updates of a kind."""
    return [update["content"]["text"] for update in updates if update["sessionUpdate"] == kind]
