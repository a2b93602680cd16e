"""`/acp` of `agh serve`: WebSocket and Streamable HTTP, with what belongs to others kept out."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any

import pytest
from websockets.exceptions import InvalidStatus
from websockets.sync.client import ClientConnection, connect

from tests.plugins.acp.client import Message, text_of
from tests.plugins.serve.server import Server, serve
from tests.support.live import Live, Session
from tests.support.wait import PATIENCE, wait_until

INITIALIZE = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {"protocolVersion": 1}}


@pytest.fixture
def server(live: Live) -> Server:
    return serve(live)


class Socket:
    """An editor on a WebSocket."""

    def __init__(self, live: Live, server: Server, connection: ClientConnection) -> None:
        self.live, self.server, self.connection = live, server, connection
        self.messages: list[Message] = []
        self._last_id = 0

    def start(self, method: str, **params: Any) -> int:
        self._last_id += 1
        message = {"jsonrpc": "2.0", "id": self._last_id, "method": method, "params": params}
        self.connection.send(json.dumps(message))
        return self._last_id

    def result(self, number: int) -> Message:
        while True:
            message = json.loads(self.connection.recv(PATIENCE))
            self.messages.append(message)
            if message.get("id") == number and "method" not in message:
                assert "result" in message, message
                result: Message = message["result"]
                return result

    def call(self, method: str, **params: Any) -> Message:
        return self.result(self.start(method, **params))

    def updates(self) -> list[Message]:
        return [each["params"]["update"] for each in self.messages if each.get("method") == "session/update"]

    def text(self) -> str:
        return "".join(text_of(self.updates(), "agent_message_chunk"))


@contextmanager
def socket(live: Live, server: Server, query: str = "?agent=echo", **options: Any) -> Iterator[Socket]:
    headers = {"Authorization": f"Bearer {server.token}"}
    url = f"ws://127.0.0.1:{server.port}/acp{query}"
    with connect(url, **{"additional_headers": headers, **options}) as connection:
        client = Socket(live, server, connection)
        client.call("initialize", protocolVersion=1)
        yield client


def prompt_of(text: str) -> list[Message]:
    return [{"type": "text", "text": text}]


def test_a_session_over_a_websocket(live: Live, server: Server) -> None:
    with socket(live, server) as client:
        session_id = client.call("session/new", cwd=str(live.workspace), mcpServers=[])["sessionId"]
        answer = client.call("session/prompt", sessionId=session_id, prompt=prompt_of("hello"))
        assert answer["stopReason"] == "end_turn"
        assert client.text() == "echo: hello"
    assert Session(live, session_id).is_live()


def test_a_websocket_that_breaks_in_a_turn_misses_nothing(live: Live, server: Server) -> None:
    with socket(live, server) as client:
        session_id = client.call("session/new", cwd=str(live.workspace), mcpServers=[])["sessionId"]
        client.start("session/prompt", sessionId=session_id, prompt=prompt_of("/stream 30 0.02"))
        session = Session(live, session_id)
        session.wait_for_text("chunk 3 ")
        client.connection.socket.close()
    with socket(live, server) as client:
        client.call("session/load", sessionId=session_id, cwd=str(live.workspace), mcpServers=[])
        session.wait_idle()
        client.call("session/prompt", sessionId=session_id, prompt=prompt_of("more"))
        assert client.text() == session.text()
        assert text_of(client.updates(), "user_message_chunk") == ["/stream 30 0.02"]


@pytest.mark.parametrize(
    ("query", "options", "status"),
    [
        ("", {"additional_headers": {}}, 401),
        ("?token=wrong", {"additional_headers": {}}, 401),
        ("", {"origin": "http://evil.example"}, 403),
    ],
)
def test_a_websocket_without_the_token_or_of_another_site_is_refused(
    live: Live, server: Server, query: str, options: Any, status: int
) -> None:
    with pytest.raises(InvalidStatus) as refusal, socket(live, server, query, **options):
        pass
    assert refusal.value.response.status_code == status


def test_a_browser_names_the_token_in_the_address(live: Live) -> None:
    server = serve(live, "--allow-origin", "http://localhost:2718")
    query = f"?agent=echo&token={server.token}"
    with socket(live, server, query, additional_headers={}, origin="http://localhost:2718") as client:
        assert client.call("session/list")["sessions"] == []


def test_a_client_on_the_web_names_no_program(live: Live, server: Server) -> None:
    servers = [{"name": "mine", "command": "/bin/sh", "args": ["-c", "true"], "env": []}]
    with socket(live, server) as client:
        number = client.start("session/new", cwd=str(live.workspace), mcpServers=servers)
        with pytest.raises(AssertionError, match="over agh serve, an MCP server needs a url"):
            client.result(number)
    assert live.sessions() == []


class Http:
    """An editor on Streamable HTTP."""

    def __init__(self, server: Server) -> None:
        self.server = server
        answer = server.ask("POST", "/acp?agent=echo", INITIALIZE, content_type="application/json")
        assert answer.status == 200, answer
        assert answer.json["result"]["protocolVersion"] == 1
        self.headers = {"acp-connection-id": answer.headers["acp-connection-id"]}

    def post(self, number: int, method: str, **params: Any) -> None:
        message = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
        answer = self.server.ask("POST", "/acp", message, content_type="application/json", **self.headers)
        assert answer.status == 202, answer

    @contextmanager
    def stream(self, session_id: str | None = None, **headers: str) -> Iterator[Iterator[Any]]:
        if session_id is not None:
            headers["acp-session-id"] = session_id
        with self.server.stream("/acp", **self.headers, **headers) as frames:
            yield frames


def until_answer(frames: Iterator[Any], number: int) -> list[Any]:
    """Return the events of a stream up to the answer to a request."""
    events = []
    for frame in frames:
        events.append(frame)
        if frame.data.get("id") == number and "method" not in frame.data:
            return events
    raise AssertionError(events)


def chunks_in(events: list[Any]) -> str:
    updates = [
        each.data["params"]["update"] for each in events if each.data.get("method") == "session/update"
    ]
    return "".join(text_of(updates, "agent_message_chunk"))


def test_a_session_over_streamable_http(live: Live, server: Server) -> None:
    client = Http(server)
    with client.stream() as events:
        client.post(1, "session/new", cwd=str(live.workspace), mcpServers=[])
        session_id = until_answer(events, 1)[-1].data["result"]["sessionId"]
        with client.stream(session_id) as own:
            client.post(2, "session/prompt", sessionId=session_id, prompt=prompt_of("hello"))
            shown = until_answer(own, 2)
            assert chunks_in(shown) == "echo: hello"
    assert server.ask("DELETE", "/acp", **client.headers).status == 202
    assert server.ask("DELETE", "/acp", **client.headers).status == 404
    assert Session(live, session_id).is_live()


def test_a_stream_that_breaks_continues_after_its_last_event(live: Live, server: Server) -> None:
    client = Http(server)
    with client.stream() as events:
        client.post(1, "session/new", cwd=str(live.workspace), mcpServers=[])
        session_id = until_answer(events, 1)[-1].data["result"]["sessionId"]
    seen: list[Any] = []
    with client.stream(session_id) as own:
        client.post(2, "session/prompt", sessionId=session_id, prompt=prompt_of("/stream 60 0.01"))
        while "chunk 5 " not in chunks_in(seen):
            seen.append(next(own))
    Session(live, session_id).wait_for_text("chunk 30 ")
    with client.stream(session_id, last_event_id=seen[-1].id) as own:
        seen += until_answer(own, 2)
    assert chunks_in(seen) == Session(live, session_id).text()
    numbers = [int(event.id) for event in seen]
    assert numbers == list(range(numbers[0], numbers[0] + len(numbers)))
    answer = server.ask("GET", "/acp", **client.headers, acp_session_id=session_id, last_event_id="9999")
    assert answer.status == 409


def test_a_client_with_one_stream_gets_everything_on_it(live: Live, server: Server) -> None:
    session = live.new()
    session.say("before")
    client = Http(server)
    with client.stream() as events:
        client.post(1, "session/load", sessionId=session.id, cwd=str(live.workspace), mcpServers=[])
        assert "before" in chunks_in(until_answer(events, 1))
        client.post(2, "session/prompt", sessionId=session.id, prompt=prompt_of("hello"))
        assert chunks_in(until_answer(events, 2)) == "echo: hello"


def test_what_is_no_request_of_a_connection_is_refused(live: Live, server: Server) -> None:
    def status(method: str = "POST", body: Any = None, **headers: str) -> int:
        headers.setdefault("content_type", "application/json")
        return server.ask(method, "/acp", body, **headers).status

    message = {**INITIALIZE, "method": "session/list"}
    assert status(body=message) == 400
    assert status(body=message, acp_connection_id="none") == 404
    assert status(body=b"not JSON") == 400
    assert status(body=[message]) == 501
    assert status(body="text") == 400
    assert status(body=message, content_type="text/plain") == 415
    assert status("GET", accept="text/html") == 406
    assert status("PUT", body=message) == 405
    assert server.ask("POST", "/acp", INITIALIZE, token=None, content_type="application/json").status == 401
    assert status(body=INITIALIZE, origin="http://evil.example") == 403


def test_the_server_ends_although_editors_are_connected(live: Live, server: Server) -> None:
    client = Http(server)
    with client.stream(), closing(socket_of(live, server)):
        assert server.end() == 0
    wait_until(lambda: server.process.poll() is not None, what="the end of the server")


def socket_of(live: Live, server: Server) -> ClientConnection:
    headers = {"Authorization": f"Bearer {server.token}"}
    return connect(f"ws://127.0.0.1:{server.port}/acp", additional_headers=headers)
