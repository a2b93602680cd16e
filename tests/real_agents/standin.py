"""A stand-in for a model, on loopback: it says what it was told, so a test can see what an agent remembers.

Speaks OpenAI chat completions, OpenAI Responses, Anthropic Messages and Gemini's generateContent, streamed.
It answers a conversation with `SEEN 2 user texts: "…" | "…"`; whatever else an agent asks (a title) gets a
short line. The newest prompt steers it, by what stands in its last line: `[slow 30]` says `begun` and then
nothing for 30 seconds, `[write NAME TEXT]` calls the agent's own tool for it, `[run COMMAND]` its shell,
`[ask colour]` its tool for questions, `[use NAME]` the tool whose name ends so, `[fail 400]` refuses. While
`limited_until` is set, every request gets what its provider answers to an account that is used up.

Every request is kept, in order, and is in the list before it is answered. It never opens a connection; as a
proxy it notes where an agent wanted to go (`strays`) and lets nobody through.
"""

from __future__ import annotations

import json
import re
import select
import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from tests.real_agents import contents, messages
from tests.real_agents.calls import call_for
from tests.real_agents.limits import refusal_of

MODEL = "stand-in"
REFUSAL = "the stand-in refuses"
_DIRECTIVE = re.compile(r"\[(slow|write|run|ask|use|fail) ([^\]\n]*)\]")
_INJECTED = re.compile(r"=== CURRENT REQUEST ===\n(.*)\n\n=== INSTRUCTIONS ===", re.DOTALL)
# What agents put among the user's words: surroundings, instructions, reminders.
_NOT_SAID = ("<", "# AGENTS.md", "This is the Qwen Code.")
_INFO = re.compile(r"<info-msg>.*?</info-msg>\s*", re.DOTALL)  # of goose, before the user's words


@dataclass
class Asked:
    """A request of an agent, and what became of it."""

    path: str
    body: dict[str, Any]
    texts: list[str]
    tools: dict[str, dict[str, Any]]
    results: int  # tool results that came after the newest user text
    state: str = "open"  # then answered, refused or cut off
    tool: str = ""  # that the stand-in called
    at: float = field(default_factory=time.monotonic)

    @property
    def is_conversation(self) -> bool:
        """Side requests, such as for a title, offer no tools."""
        return bool(self.tools) and bool(self.texts)

    @property
    def prompt(self) -> str:
        """Return what the user wants now, without the history that was put before it."""
        text = self.texts[-1] if self.texts else ""
        match = _INJECTED.search(text)
        return match[1] if match else text

    @property
    def directives(self) -> dict[str, str]:
        """Return those of the last line: a prompt that was cancelled may stand before it."""
        lines = self.prompt.strip().splitlines()
        return dict(_DIRECTIVE.findall(lines[-1])) if lines else {}


class Standin:
    """The server; a context manager. `url` is where it listens."""

    def __init__(self, log: Path | None = None) -> None:
        self.requests: list[Asked] = []
        self.strays: list[str] = []
        self.limited_until: float | None = None  # the account has used up what it may use
        self.closing = threading.Event()
        self._log = log
        self._lock = threading.Lock()
        self._server = _Server(("127.0.0.1", 0), _Handler)
        self._server.standin = self
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,))

    def __enter__(self) -> Standin:
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self.closing.set()
        self._server.shutdown()
        self._thread.join(10)
        self._server.server_close()

    def keep(self, asked: Asked) -> None:
        with self._lock:
            self.requests.append(asked)
            if self._log is not None:
                with self._log.open("a") as file:
                    file.write(
                        json.dumps({"path": asked.path, "texts": asked.texts, "body": asked.body}) + "\n"
                    )

    def conversation(self, prompt: str = "") -> list[Asked]:
        """Return the requests that belong to a conversation, or to one prompt (a part of it is enough)."""
        return [
            request for request in list(self.requests) if request.is_conversation and prompt in request.prompt
        ]


class _Server(ThreadingHTTPServer):
    daemon_threads = False  # server_close waits for them: a test leaves no thread behind
    standin: Standin

    def handle_error(self, request: Any, client_address: Any) -> None:
        """An agent that hangs up is part of the test, not an error."""


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    timeout = 60

    def do_GET(self) -> None:
        if self.path.endswith("/models"):
            self._send(200, {}, {"object": "list", "data": [{"id": MODEL, "object": "model"}]})
        else:
            self._stray()

    def do_CONNECT(self) -> None:
        """Some agents ask their proxy for a tunnel even to loopback: they are already where it would end."""
        if self.server.standin.url.endswith(f"//{self.path}"):
            self.send_response_only(200)
            self.end_headers()
            self.close_connection = False
        else:
            self._stray()

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.path.endswith("/chat/completions"):
            self._answer(_read_chat(self.path, body), _chat_text, _chat_call)
        elif self.path.endswith("/responses"):
            self._answer(_read_responses(self.path, body), _responses_text, _responses_call)
        elif self.path.partition("?")[0].endswith("/messages"):
            request = _read_parts(self.path, body, messages.read_messages)
            self._answer(request, messages.stream_text, messages.stream_call)
        elif "enerateContent" in self.path:
            request = _read_parts(self.path, body, contents.read_contents)
            self._answer(request, contents.stream_text, contents.stream_call)
        else:
            self._stray()

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def _answer(
        self,
        asked: Asked,
        text: Callable[[Iterator[str]], Iterator[dict[str, Any]]],
        call: Callable[[str, dict[str, Any]], Iterator[dict[str, Any]]],
    ) -> None:
        self.server.standin.keep(asked)
        if reset := self.server.standin.limited_until:
            asked.state = "limited"
            self._send(*refusal_of(asked.path.partition("?")[0], reset))
            return
        directives = asked.directives if asked.is_conversation else {}
        if "fail" in directives:
            asked.state = "refused"
            status, refusal = _refusal(asked.path, int(directives["fail"]))
            self._send(status, {}, refusal)
            return
        wanted_call = None if asked.results else call_for(directives, asked.tools)
        if wanted_call:
            asked.tool = wanted_call[0]
            events = call(*wanted_call)
        else:
            events = text(self._words(asked, float(directives.get("slow", 0))))
        try:
            if asked.body.get("stream") or "streamGenerateContent" in asked.path:
                self._stream(events, named="responses" in asked.path or "messages" in asked.path)
            elif "generateContent" in asked.path:
                self._send(200, {}, contents.as_answer("a few words"))
            elif "messages" in asked.path:
                self._send(200, {}, messages.as_message("a few words"))
            else:
                self._send(200, {}, _whole(events))
            asked.state = "answered"
        except OSError:
            asked.state = "cut off"

    def _words(self, asked: Asked, slow: float) -> Iterator[str]:
        """Yield the answer in pieces. An empty piece is a pause in which the peer may be found gone."""
        if not asked.is_conversation:
            yield "a few words"
            return
        if slow:
            yield "begun "
            end = time.monotonic() + slow
            while time.monotonic() < end and not self.server.standin.closing.wait(0.05):
                yield ""
        if asked.results:
            yield f"DONE after {asked.results} tool results. "
        said = " | ".join(json.dumps(text, ensure_ascii=False) for text in asked.texts)
        yield f"SEEN {len(asked.texts)} user texts: {said}"

    def _stream(self, events: Iterator[dict[str, Any]], named: bool) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.end_headers()
        for event in events:
            if not event:
                self._wait_a_moment()
                continue
            name = f"event: {event['type']}\n" if named else ""
            self.wfile.write(f"{name}data: {json.dumps(event)}\n\n".encode())
        if not named and "enerateContent" not in self.path:
            self.wfile.write(b"data: [DONE]\n\n")

    def _wait_a_moment(self) -> None:
        """Raise OSError if the peer is gone. Not all can read a comment in a stream."""
        if "enerateContent" not in self.path:
            self.wfile.write(b": waiting\n\n")
        elif select.select([self.connection], [], [], 0)[0] and not self.connection.recv(1, socket.MSG_PEEK):
            raise ConnectionError

    def _send(self, status: int, headers: dict[str, str], answer: dict[str, Any]) -> None:
        data = json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        for name, value in headers.items():
            self.send_header(name, value)
        if status == 401:
            self.send_header("x-should-retry", "false")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def _stray(self) -> None:
        self.server.standin.strays.append(f"{self.command} {self.path}")
        self._send(403, {}, {"error": {"message": "nothing but the stand-in is reachable"}})


def _refusal(path: str, status: int) -> tuple[int, dict[str, Any]]:
    """Return a status and an error; for a refused key, the words of the real models."""
    if status != 401:
        return status, {"error": {"message": REFUSAL, "type": "invalid_request_error", "code": "stand_in"}}
    if "messages" in path:
        error = {"type": "authentication_error", "message": "invalid x-api-key"}
        return status, {"type": "error", "error": error}
    if "enerateContent" in path:
        words = "API key not valid. Please pass a valid API key."
        return 400, {"error": {"code": 400, "message": words, "status": "INVALID_ARGUMENT"}}
    words = "Incorrect API key provided: x."
    return status, {"error": {"message": words, "type": "invalid_request_error", "code": "invalid_api_key"}}


def _read_chat(path: str, body: dict[str, Any]) -> Asked:
    tools = {
        tool["function"]["name"]: tool["function"].get("parameters", {}) for tool in body.get("tools") or []
    }
    texts: list[str] = []
    results = 0
    for message in body["messages"]:
        if message["role"] == "user":
            said = _said(message["content"], "text")
            texts += said
            results = 0 if said else results
        results += message["role"] == "tool"
    return Asked(path, body, texts, tools, results)


def _read_responses(path: str, body: dict[str, Any]) -> Asked:
    tools = {}
    for tool in body.get("tools") or []:
        for inner in tool.get("tools") or ():  # of a namespace
            tools[f"{tool['name']}/{inner['name']}"] = inner.get("parameters", {})
        if tool.get("type") == "function":
            tools[tool["name"]] = tool.get("parameters", {})
    texts: list[str] = []
    results = 0
    for item in body["input"]:
        if item.get("role") == "user":
            said = _said(item["content"], "input_text")
            texts += said
            results = 0 if said else results
        results += str(item.get("type")).endswith("_call_output")
    return Asked(path, body, texts, tools, results)


def _read_parts(path: str, body: dict[str, Any], read: Callable[[dict[str, Any]], Any]) -> Asked:
    said, tools, results = read(body)
    return Asked(path, body, ["\n".join(texts) for texts in said], tools, results)


def _said(content: str | Sequence[dict[str, Any]], kind: str) -> list[str]:
    """Return the user's own words in a message; each message counts as one text."""
    parts = [content] if isinstance(content, str) else [one["text"] for one in content if one["type"] == kind]
    parts = [_INFO.sub("", part) for part in parts]
    text = "\n".join(part for part in parts if not part.lstrip().startswith(_NOT_SAID))
    return [text] if text.strip() else []


def _chat(delta: dict[str, Any], finish: str | None = None) -> dict[str, Any]:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return {
        "id": "chat-1",
        "object": "chat.completion.chunk",
        "created": 1,
        "model": MODEL,
        "choices": [choice],
    }


def _chat_end(finish: str) -> dict[str, Any]:
    usage = {"prompt_tokens": 7, "completion_tokens": 5, "total_tokens": 12}
    return {**_chat({}, finish), "usage": usage}


def _chat_text(words: Iterator[str]) -> Iterator[dict[str, Any]]:
    yield _chat({"role": "assistant", "content": ""})
    for word in words:
        yield _chat({"content": word}) if word else {}
    yield _chat_end("stop")


def _chat_call(tool: str, arguments: dict[str, Any]) -> Iterator[dict[str, Any]]:
    function = {"name": tool, "arguments": json.dumps(arguments)}
    call = {"index": 0, "id": f"call-{time.monotonic_ns()}", "type": "function", "function": function}
    yield _chat({"role": "assistant", "content": None, "tool_calls": [call]})
    yield _chat_end("tool_calls")


def _responses(item: dict[str, Any], deltas: Iterator[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    answer: dict[str, Any] = {"id": f"resp-{time.monotonic_ns()}", "object": "response", "model": MODEL}
    yield {"type": "response.created", "response": {**answer, "status": "in_progress", "output": []}}
    yield {"type": "response.output_item.added", "output_index": 0, "item": {**item, "status": "in_progress"}}
    yield from deltas
    yield {"type": "response.output_item.done", "output_index": 0, "item": item}
    usage = {"input_tokens": 7, "output_tokens": 5, "total_tokens": 12}
    usage |= {"input_tokens_details": {"cached_tokens": 0}, "output_tokens_details": {"reasoning_tokens": 0}}  # type: ignore[dict-item]
    done = {**answer, "status": "completed", "output": [item], "usage": usage}
    yield {"type": "response.completed", "response": done}


def _responses_text(words: Iterator[str]) -> Iterator[dict[str, Any]]:
    name = f"msg-{time.monotonic_ns()}"
    item: dict[str, Any] = {"type": "message", "id": name, "role": "assistant", "content": []}

    def deltas() -> Iterator[dict[str, Any]]:
        place = {"item_id": name, "output_index": 0, "content_index": 0}
        said = ""
        for word in words:
            said += word
            yield {"type": "response.output_text.delta", **place, "delta": word} if word else {}
        item["content"] = [{"type": "output_text", "text": said, "annotations": []}]
        yield {"type": "response.output_text.done", **place, "text": said}

    return _responses(item, deltas())


def _responses_call(tool: str, arguments: dict[str, Any]) -> Iterator[dict[str, Any]]:
    number = f"call-{time.monotonic_ns()}"
    namespace, _, name = tool.rpartition("/")
    call = {"type": "function_call", "id": "fc-1", "call_id": number, "name": name}
    call |= {"namespace": namespace} if namespace else {}
    return _responses({**call, "arguments": json.dumps(arguments)}, iter(()))


def _whole(events: Iterator[dict[str, Any]]) -> dict[str, Any]:
    """Return a stream's outcome as one answer, for a client that did not ask for a stream."""
    text, last = "", {}
    for last in filter(None, events):
        text += last.get("choices", [{}])[0].get("delta", {}).get("content") or ""
    if "response" in last:
        return dict(last["response"])
    message = {"role": "assistant", "content": text}
    return {
        **last,
        "object": "chat.completion",
        "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
    }
