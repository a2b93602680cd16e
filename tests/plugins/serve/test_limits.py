"""What a client can cost the server: slow queries, long heads and bodies, headers that are there twice."""

from __future__ import annotations

import http.client
import json
import signal
import socket
import time
from urllib.parse import quote

import pytest

from tests.plugins.serve.server import Server
from tests.support.live import Live
from tests.support.mounts import read_only
from tests.support.processes import cpu_ticks_of
from tests.support.wait import wait_until

ENDLESS = "(WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT max(x) FROM n) > 0"


QUERYING = 40  # ticks of CPU; nothing else that these processes do takes that long


def wait_until_busy(pid: int, idle_ticks: int = 0) -> None:
    """Wait until a process has worked on its query for a while, however little of the machine it gets."""
    wait_until(lambda: cpu_ticks_of(pid) > idle_ticks + QUERYING, limit=60, what="the query runs")


def is_idle(pid: int) -> bool:
    """Even on a machine with much else to do, a query that still ran would get more of it than this."""
    before = cpu_ticks_of(pid)
    time.sleep(1.5)
    return cpu_ticks_of(pid) - before <= 2


def start_endless_query(server: Server, session_id: str) -> http.client.HTTPConnection:
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
    path = f"/api/sessions/{session_id}/events?where={quote(ENDLESS)}"
    before = cpu_ticks_of(server.process.pid)
    connection.request("GET", path, headers={"Authorization": f"Bearer {server.token}"})
    wait_until_busy(server.process.pid, before)
    return connection


def test_a_query_ends_when_its_client_leaves(live: Live, server: Server) -> None:
    session = live.new()
    session.tell("hello")
    start_endless_query(server, session.id).close()
    wait_until(lambda: is_idle(server.process.pid), what="the query ends")
    assert server.ask("GET", f"/api/sessions/{session.id}").status == 200


def test_a_query_ends_when_the_server_stops(live: Live, server: Server) -> None:
    session = live.new()
    session.tell("hello")
    connection = start_endless_query(server, session.id)
    server.process.send_signal(signal.SIGTERM)
    assert server.process.wait(20) == 0
    connection.close()


def test_a_query_has_a_time_limit(live: Live, monkeypatch: pytest.MonkeyPatch) -> None:
    from agh.errors import QueryStopped
    from agh.home import Session
    from agh.store import reader

    session = live.new()
    session.tell("hello")
    monkeypatch.setattr(reader, "QUERY_LIMIT", 0.3)
    with reader.Reader(Session.at(session.directory)) as log:
        with pytest.raises(QueryStopped):
            log.newest(reader.Query(where=ENDLESS), 1)
        assert log.last_sequence() > 0, "the reader can go on"


def test_ctrl_c_ends_a_query_of_the_command_line(live: Live) -> None:
    session = live.new()
    session.tell("hello")
    with live.start("session", "events", session.id, "--where", ENDLESS) as command:
        wait_until_busy(command.pid)
        command.send_signal(signal.SIGINT)
        assert command.wait(20) == 130


def send(server: Server, data: bytes) -> bytes:
    """Send bytes, and return what comes back before the server closes or stops answering."""
    with socket.create_connection(("127.0.0.1", server.port), timeout=10) as connection:
        try:
            connection.sendall(data)
        except OSError:
            pass  # closed while we were still writing
        received = b""
        try:
            while data := connection.recv(65536):
                received += data
        except OSError:
            pass
        return received


@pytest.mark.parametrize("form", ["one header", "many headers", "a line"])
def test_a_long_head_is_refused_before_it_is_whole(shared_server: Server, form: str) -> None:
    head = {
        "one header": b"GET / HTTP/1.1\r\nhost: localhost\r\nx-long: " + b"x" * 3_000_000,
        "many headers": b"GET / HTTP/1.1\r\nhost: localhost\r\n" + b"x-y: z\r\n" * 300_000,
        "a line": b"GET /" + b"x" * 3_000_000,
    }[form]
    answer = send(shared_server, head)
    assert answer == b"" or answer.split(b" ")[1] in (b"431", b"400")
    assert shared_server.ask("GET", "/api/sessions").status == 200


def test_a_long_body_is_refused_before_the_token_is_checked(shared_server: Server) -> None:
    head = b"POST /api/sessions HTTP/1.1\r\nhost: localhost\r\ncontent-length: 99999999999\r\n\r\n"
    assert b" 413 " in send(shared_server, head + b"x").split(b"\r\n")[0]


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("host", ("localhost", "evil.example")),
        ("host", ("evil.example", "localhost")),
        ("origin", ("http://localhost", "http://evil.example")),
        ("origin", ("http://evil.example", "http://localhost")),
    ],
)
def test_a_header_that_is_there_twice(shared_server: Server, name: str, values: tuple[str, str]) -> None:
    headers = [] if name == "host" else [f"host: localhost:{shared_server.port}"]
    headers += [f"{name}: {value}:{shared_server.port}" for value in values]
    headers += [f"authorization: Bearer {shared_server.token}", "connection: close"]
    answer = send(shared_server, "\r\n".join(["GET /api/sessions HTTP/1.1", *headers, "", ""]).encode())
    assert b" 403 " in answer.split(b"\r\n")[0], answer
    assert json.loads(answer.partition(b"\r\n\r\n")[2])["error"]["code"] in ("host_refused", "origin_refused")


def test_a_home_that_is_read_only_is_no_bug(live: Live, server: Server) -> None:
    live.new()
    with read_only(live.home):
        answer = server.ask("POST", "/api/sessions", {"agent": "echo", "workspace": str(live.workspace)})
    assert answer.code == "home_read_only", answer
