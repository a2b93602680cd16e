"""The control socket: private, strict, and not to be hurt by what is sent to it."""

from __future__ import annotations

import json
import os
import socket
import stat
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from agh.errors import AghError
from tests.support.live import Live, Session, Share, living
from tests.support.processes import is_alive, memory_of
from tests.support.wait import wait_until

NOBODY = 65534


def hello_as(user: int, directory: Path) -> str:
    """Return what a process of this user gets from the socket. It comes in by its working directory, since it
    could not walk down to it."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.chdir(directory)
            os.setgroups([])
            os.setgid(user)
            os.setuid(user)
            os.write(writing, _hello().encode())
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        text = pipe.read()
    os.waitpid(child, 0)
    return text


def _hello() -> str:
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(10)
        try:
            connection.connect("keeper.sock")
            connection.sendall(b'{"v":1,"verb":"hello"}\n')
            return "answer" if connection.recv(1000) else "closed"
        except (BrokenPipeError, ConnectionResetError):
            return "closed"
        except PermissionError:
            return "no permission"


def ask(session: Session, line: bytes) -> dict[str, Any]:
    """Return the answer to one line."""
    with session.connect() as connection:
        connection.sendall(line + b"\n")
        document: dict[str, Any] = json.loads(connection.makefile("rb").readline())
        return document


def test_the_socket_is_private(shared_with: Share) -> None:
    session = shared_with()
    about = (session.directory / "keeper.sock").lstat()
    assert stat.S_ISSOCK(about.st_mode)
    assert stat.S_IMODE(about.st_mode) == 0o600
    assert stat.S_IMODE(session.directory.stat().st_mode) == 0o700


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be another user")
def test_another_user_is_turned_away(live: Live) -> None:
    session = live.new()
    assert hello_as(NOBODY, session.directory) == "no permission"
    (session.directory / "keeper.sock").chmod(0o666)
    session.directory.chmod(0o711)
    assert hello_as(NOBODY, session.directory) == "closed", "modes apart, the keeper asks who is there"
    assert hello_as(os.geteuid(), session.directory) == "answer"


def test_a_path_longer_than_a_socket_address(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = tmp_path / ("d" * 100) / ("e" * 100)
    monkeypatch.setenv("AGH_HOME", str(home))
    monkeypatch.setenv("AGH_ECHO_HOME", str(tmp_path / "echo"))
    with living(home, tmp_path / "work") as live:
        session = live.new()
        assert len(str(session.directory / "keeper.sock")) > 300
        assert session.say("hello") == "echo: hello"
        session.kill_keeper()
        assert session.say("what did I say?").startswith("SEEN 2")
        session.agh("stop")


def test_nonsense_is_answered_with_an_error(shared_with: Share) -> None:
    session = shared_with()
    before = session.hello()
    for line, code in (
        (b"", "usage"),
        (b"garbage", "usage"),
        (b"\xff\xfe\x00", "usage"),
        (b"[1,2]", "usage"),
        (b"null", "usage"),
        (b"[" * 100_000, "usage"),
        (b'{"v":1}', "usage"),
        (b'{"v":1,"verb":"dance"}', "usage"),
        (b'{"v":1,"verb":["hello"]}', "usage"),
        (b'{"verb":"hello"}', "control_version"),
        (b'{"v":2,"verb":"hello"}', "control_version"),
        (b'{"v":"1","verb":"hello"}', "control_version"),
    ):
        error = ask(session, line)["error"]
        assert (error["code"], bool(error["message"])) == (code, True), line[:100]
    assert session.hello() == before
    assert session.events() == []


def test_any_version_can_stop_a_session(live: Live) -> None:
    session = live.new()
    assert ask(session, b'{"v":99,"verb":"prompt","prompt":[]}')["error"]["code"] == "control_version"
    assert ask(session, b'{"v":99,"verb":"stop"}')["ok"]["stop_reason"] == "completed"
    wait_until(lambda: not session.is_live())


BAD_REQUESTS = [
    {"verb": "prompt"},
    {"verb": "prompt", "prompt": "text"},
    {"verb": "prompt", "prompt": [1]},
    {"verb": "prompt", "prompt": None},
    {"verb": "prompt", "prompt": [{"type": "text", "text": "x"}], "idempotency_key": {"a": 1}},
    {"verb": "attach"},
    {"verb": "attach", "holder": "x", "ttl": "soon"},
    {"verb": "attach", "holder": "x", "ttl": []},
    {"verb": "decide"},
    {"verb": "decide", "verdict": "maybe"},
    {"verb": "cancel", "grace": "long"},
]


def test_a_bad_request_does_not_end_the_session(live: Live) -> None:
    """A command of another version, or a bug in one, must not take the agent's work with it."""
    session = live.new()
    fatal = []
    for request in BAD_REQUESTS:
        keeper = session.revive()
        session.send("/ask path=a.txt\n/say after")
        wait_until(lambda: session.fetch("SELECT 1 FROM permissions WHERE status = 'pending'"))
        try:
            refused = "error" in ask(session, json.dumps({"v": 1, **request}).encode())
        except (ValueError, OSError):
            refused = False
        with suppress(AghError):
            session.decide("deny")
        wait_until(lambda: is_settled(session) or not is_alive(keeper))  # noqa: B023
        if not refused or not is_alive(keeper):
            fatal.append(request)
            wait_until(lambda: not session.is_live())
    assert fatal == []
    session.check_log()


def is_settled(session: Session) -> bool:
    return not {status for status, _ in session.inputs()} & {"queued", "dispatching"}


def test_many_messages_on_one_connection(shared_with: Share) -> None:
    session = shared_with()
    with session.connect() as connection:
        connection.sendall(b'{"v":1,"verb":"hello"}\nnonsense\n{"v":1,"verb":"hello"}\n{"v":1,')
        lines = connection.makefile("rb")
        answers = [json.loads(lines.readline()) for _ in range(3)]
        connection.sendall(b'"verb":"hello"}\n')
        answers.append(json.loads(lines.readline()))
    assert ["ok" in answer for answer in answers] == [True, False, True, True]


def test_those_who_come_and_go_do_no_harm(shared_with: Share) -> None:
    session = shared_with()
    idle = [session.connect() for _ in range(100)]
    for connection in idle[:50]:
        connection.send(b'{"v":1,"verb":"he')
        connection.close()
    for connection in idle[50:75]:
        connection.send(b'{"v":1,"verb":"hello"}\n' * 200)
        connection.close()
    assert session.say("hello") == "echo: hello"
    for connection in idle[75:]:
        connection.close()


def test_an_oversize_message_is_cut_off(shared_with: Share) -> None:
    session = shared_with()
    before = session.hello()["pid"]
    block = b"x" * (1 << 20)
    with session.connect() as connection:
        sent = 0
        with pytest.raises((BrokenPipeError, ConnectionResetError)):
            while sent < 200:
                connection.sendall(block)
                sent += 1
        assert sent < 100
    assert session.keeper == before
    assert memory_of(before, "VmHWM") < 250
    assert session.tell("hello") == "echo: hello"


def test_one_who_leaves_before_the_answer_has_still_prompted(shared_with: Share) -> None:
    session = shared_with()
    request = {"v": 1, "verb": "prompt", "prompt": [{"type": "text", "text": "/say done"}]}
    with session.connect() as connection:
        connection.sendall(json.dumps(request).encode() + b"\n")
        connection.shutdown(socket.SHUT_RD)
    session.wait_for_text("done")
    session.wait_idle()
    assert session.inputs() == [("sent", "/say done")]
