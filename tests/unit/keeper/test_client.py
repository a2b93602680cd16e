"""What a command reads from a keeper's socket: its answer, and nothing that comes after it."""

from __future__ import annotations

import socket
import threading

import pytest

from agh.errors import KeeperDied
from agh.home import Session
from agh.keeper import client, protocol
from tests.support.build import Home

pytestmark = pytest.mark.timeout(30)


def answer_with(session: Session, *pieces: bytes) -> threading.Thread:
    """Answer the next request on the session's socket with these bytes, and close the connection."""
    server = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    with protocol.short_path(session) as address:
        server.bind(address)
    server.listen()

    def serve() -> None:
        with server:
            connection, _ = server.accept()
            with connection, connection.makefile("rb") as lines:
                lines.readline()
                for piece in pieces:
                    connection.sendall(piece)

    thread = threading.Thread(target=serve)
    thread.start()
    return thread


@pytest.fixture
def session(home: Home) -> Session:
    return Session.at(home.directory())


def test_what_follows_the_answer_is_left_on_the_socket(session: Session) -> None:
    pieces = b'{"ok": {"lender": "a"}}\n{"ok": {"number": 1}}\n{"ok"', b': {"number": 2}}\n'
    server = answer_with(session, *pieces)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        assert client.call_on(connection, session, "lend") == {"lender": "a"}
        with connection.makefile("rb") as lines:
            assert [*lines] == [b'{"ok": {"number": 1}}\n', b'{"ok": {"number": 2}}\n']
    server.join()


def test_an_answer_larger_than_a_read_comes_whole(session: Session) -> None:
    text = "x" * 300_000
    server = answer_with(session, protocol.encode({"ok": {"text": text}}))
    assert client.call(session, "hello") == {"text": text}
    server.join()


def test_half_an_answer_is_none(session: Session) -> None:
    server = answer_with(session, b'{"ok": {"lender')
    with pytest.raises(KeeperDied):
        client.call(session, "hello")
    server.join()
