"""Who may ask: the token, the host, the origin; where the server listens."""

from __future__ import annotations

import os
import signal
import socket
import stat
from pathlib import Path

import pytest

from tests.plugins.serve.server import Server, serve
from tests.support.live import Live, Session
from tests.support.wait import PATIENCE


def test_the_token_is_private_and_kept(live: Live) -> None:
    first = serve(live)
    path = live.home / "serve.token"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert len(first.token) >= 40
    second = serve(live)
    assert second.token == first.token
    assert sorted(os.listdir(live.home)) == ["serve.token", "serve.url"]
    assert first.process.stderr is not None
    first.end()
    assert first.token not in first.process.stderr.read().decode()  # no terminal: it would land in a log


def test_everything_but_the_pages_files_needs_the_token(shared_server: Server) -> None:
    for path in (
        "/api/sessions",
        "/api/openapi.json",
        "/api/sessions/x/stream",
        "/nothing",
        "//",
        "/page.js/",
    ):
        for token in (None, "wrong", shared_server.token + "x", shared_server.token[:-1]):
            answer = shared_server.ask("GET", path, token=token)
            assert (answer.status, answer.code) == (401, "unauthorized"), (path, token)
            assert answer.headers["www-authenticate"] == "Bearer"
    assert (
        shared_server.ask(
            "GET", "/api/sessions", token=None, authorization=f"Basic {shared_server.token}"
        ).status
        == 401
    )
    assert shared_server.ask("POST", "/api/sessions", {"agent": "echo"}, token=None).status == 401
    for path in ("/", "/page.js", "/page.css", "/transcript.css"):
        answer = shared_server.ask("GET", path, token=None)
        assert answer.status == 200 and answer.body
        assert shared_server.token.encode() not in answer.body
        assert "default-src 'none'" in answer.headers["content-security-policy"]
        assert answer.headers["x-frame-options"] == "DENY"
        assert shared_server.ask("GET", path, token=None, if_none_match=answer.headers["etag"]).status == 304


def test_names_that_are_not_ours(live: Live) -> None:
    server = serve(live, "--allow-host", "box.example")
    port = server.port
    for host in (
        "localhost",
        f"localhost:{port}",
        "127.0.0.1",
        f"127.9.9.9:{port}",
        f"[::1]:{port}",
        "BOX.example",
    ):
        assert server.ask("GET", "/api/sessions", host=host).status == 200, host
    for host in (
        "evil.example",
        f"evil.example:{port}",
        "localhost.evil.example",
        "192.168.1.7",
        "",
        "localhost@evil",
        "a b",
    ):
        for path in ("/api/sessions", "/"):
            answer = server.ask("GET", path, host=host)
            assert (answer.status, answer.code) == (403, "host_refused"), host


def test_pages_of_others(shared_server: Server) -> None:
    ours = f"http://127.0.0.1:{shared_server.port}"
    assert shared_server.ask("GET", "/api/sessions", origin=ours).status == 200
    for origin in (
        "null",
        "http://evil.example",
        "http://127.0.0.1:1",
        "https://localhost",
        "file://",
        "http://[",
    ):
        answer = shared_server.ask("POST", "/api/sessions", {"agent": "echo"}, origin=origin)
        assert (answer.status, answer.code) == (403, "origin_refused"), origin
        assert "access-control-allow-origin" not in answer.headers
    assert shared_server.ask("OPTIONS", "/api/sessions", origin=ours).status == 405


def test_a_unix_socket(live: Live, tmp_path: Path) -> None:
    path = tmp_path / "agh.sock"
    server = serve(live, "--socket", path)
    assert server.address == f"unix:{path}"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert server.get("/api/sessions") == {"sessions": []}
    assert server.ask("GET", "/api/sessions", token=None).status == 401
    refused = live.agh("serve", "--socket", path, code=6)
    assert "cannot listen" in refused.stderr
    server.process.kill()  # leaves its socket behind
    server.process.wait()
    again = serve(live, "--socket", path)
    assert again.get("/api/sessions") == {"sessions": []}
    again.end()
    assert not path.exists()
    path.write_text("precious")
    live.agh("serve", "--socket", path, code=6)
    assert path.read_text() == "precious"
    assert "too long" in live.agh("serve", "--socket", tmp_path / ("x" * 120), code=6).stderr


def test_other_machines_never_without_a_token(live: Live) -> None:
    for host in ("0.0.0.0", "::", "192.0.2.1"):
        refused = live.agh("serve", "--host", host, "--no-token", "--port", 0, code=2)
        assert "without a token" in refused.stderr
    assert not (live.home / "serve.token").exists()
    here = serve(live, "--no-token")
    assert here.ask("GET", "/api/sessions", token=None).status == 200
    assert here.ask("GET", "/api/sessions", token=None, host="evil.example").status == 403
    server = serve(live, "--host", "0.0.0.0")
    assert server.ask("GET", "/api/sessions", host=f"192.0.2.1:{server.port}").status == 200
    assert server.ask("GET", "/api/sessions", host="rebound.example").status == 403
    assert server.ask("GET", "/api/sessions", token=None).status == 401
    server.end()
    assert server.process.stderr is not None and b"not encrypted" in server.process.stderr.read()


def test_a_taken_port(live: Live) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        refused = live.agh("serve", "--port", other.getsockname()[1], code=6)
    assert "cannot listen" in refused.stderr and "--port 0" in refused.stderr
    assert live.agh("serve", "--host", "no.such.host.invalid", code=6).stderr.startswith("warning")
    live.agh("serve", "--port", 70000, code=2)


@pytest.mark.parametrize(
    ("mode", "text"),
    [(0o644, "a" * 40), (0o600, "short"), (0o600, ""), (0o600, "two words" * 9), (0o600, "é" * 40)],
)
def test_a_token_file_that_cannot_be(live: Live, mode: int, text: str) -> None:
    live.home.mkdir(mode=0o700)
    path = live.home / "serve.token"
    path.write_text(text)
    path.chmod(mode)
    refused = live.agh("serve", "--port", 0, code=5)
    assert str(path) in refused.stderr
    assert path.read_text() == text


def test_the_head_of_a_stream(shared: Session, shared_server: Server) -> None:
    answer = shared_server.ask("HEAD", f"/api/sessions/{shared.id}/stream")
    assert (answer.status, answer.body) == (200, b"")
    assert answer.headers["content-type"].startswith("text/event-stream")
    assert shared_server.ask("HEAD", f"/api/sessions/{shared.id}").status == 200


def test_an_ignored_signal_stays_ignored(live: Live) -> None:
    server = serve(live, preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN))
    server.process.send_signal(signal.SIGHUP)
    assert server.get("/api/sessions") == {"sessions": []}
    assert server.end() == 0


def test_signals(live: Live) -> None:
    session = live.new()
    for number, code in ((signal.SIGTERM, 0), (signal.SIGINT, 130), (signal.SIGHUP, 0)):
        server = serve(live)
        with server.stream(f"/api/sessions/{session.id}/stream"):
            server.process.send_signal(number)
            assert server.process.wait(PATIENCE) == code
        assert server.process.stderr is not None
        assert "Traceback" not in server.process.stderr.read().decode()
