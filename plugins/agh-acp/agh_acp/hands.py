"""What the client does for the agent of a session while it has it open: it lends files and terminals.

Promises: the keeper decides what is allowed and asks; this only passes on. If the client is gone, the
connection to the keeper ends with it, and agh's own files and terminals serve the agent.
"""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Mapping
from typing import Any

import orjson

from agh.errors import AghError
from agh.home import Session
from agh.keeper import client as keeper
from agh.keeper import protocol
from agh.store import meta
from agh_acp.capabilities import Client
from agh_acp.wire import Message, Wire

RETRY = 1.0  # seconds between two tries
_PATHS = ("path", "cwd")


class Hands:
    """What the client lends to one session."""

    def __init__(self, session: Session, wire: Wire, client: Client, directory: str | None) -> None:
        self.terminals: set[str] = set()  # that the client runs for the agent
        self.shown_terminals: set[str] = set()  # the same, and those released: the client still shows them
        self._session, self._wire, self._offers = session, wire, offers_of(client)
        self._directory = directory  # the workspace, as the client calls it
        self._lock = threading.Lock()
        self._connection: socket.socket | None = None
        self._lender = ""
        self._next_try = 0.0
        self._closed = False
        self._is_silent = False  # the client has not answered in time, and owes the answer

    def lend(self) -> None:
        """Lend them to the session's keeper, unless it has them. If it cannot be reached, do nothing."""
        if self._connection is not None:
            return
        with self._lock:
            if self._connection is not None or self._closed:
                return
            connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            try:
                holder = f"acp:{os.getpid()}"
                answer = keeper.call_on(connection, self._session, "lend", holder=holder, offers=self._offers)
            except (AghError, OSError):
                connection.close()
                return
            connection.settimeout(None)
            self._connection, self._lender = connection, answer["lender"]
            self._is_silent = False
        threading.Thread(target=self._serve, args=[connection], daemon=True).start()

    def lend_soon(self) -> None:
        """Do the same, but not again and again."""
        if self._connection is None and not self._is_silent and time.monotonic() >= self._next_try:
            self._next_try = time.monotonic() + RETRY
            self.lend()

    def close(self) -> None:
        """Take them back."""
        with self._lock:
            self._closed = True
            if self._connection is not None:
                self._connection.shutdown(socket.SHUT_RDWR)

    def _serve(self, connection: socket.socket) -> None:
        """Pass on what the keeper asks for until it asks no more; then release what the agent left behind."""
        with connection, connection.makefile("rb") as lines:
            try:
                for line in lines:
                    work = orjson.loads(line).get("ok") or {}
                    if "end" in work:
                        self._is_silent = True
                        break
                    if "number" in work:
                        self._pass_on(connection, work)
            except (AghError, OSError, orjson.JSONDecodeError):
                pass  # the keeper is gone, or the session
            with self._lock:
                self._connection = None
                terminals, self.terminals = self.terminals, set()
        for name in terminals:
            self._release(name)

    def _release(self, terminal: str) -> None:
        """End a command that nobody waits for."""
        params = {"sessionId": self._session.id, "terminalId": terminal}
        self._wire.request("terminal/release", params, lambda answer: None)

    def _pass_on(self, connection: socket.socket, work: Mapping[str, Any]) -> None:
        if work.get("whole"):
            self._pass_whole(connection, work)
            return
        method, params = work["method"], dict(work["params"])
        for name in _PATHS:
            if name in params:
                params[name] = self._client_path(params[name])

        def take_answer(message: Message) -> None:
            result = message.get("result")
            result = {} if result is None and "error" not in message else result
            self._is_silent = False
            if method == "terminal/create" and isinstance(result, dict):
                name = str(result.get("terminalId"))
                with self._lock:
                    is_late = self._connection is not connection
                    if not is_late:
                        self.terminals.add(name)
                        self.shown_terminals.add(name)
                if is_late:
                    self._release(name)
            elif method == "terminal/release":
                self.terminals.discard(params["terminalId"])
            self._send(connection, {"number": work["number"], "result": result})

        self._wire.request(method, {"sessionId": self._session.id, **params}, take_answer)

    def _pass_whole(self, connection: socket.socket, work: Mapping[str, Any]) -> None:
        """Pass on what neither the keeper nor we know: only the session's id is changed."""
        params = work["params"]
        if isinstance(params, dict) and "sessionId" in params:
            params = {**params, "sessionId": self._session.id}

        def take_answer(message: Message) -> None:
            self._send(connection, {"number": work["number"], "answer": message})

        self._wire.request(work["method"], params, take_answer)

    def _send(self, connection: socket.socket, answer: Message) -> None:
        request = {"v": protocol.VERSION, "verb": "lent", "lender": self._lender}
        data = protocol.encode({**request, **answer})
        if len(data) > protocol.MAX_MESSAGE:  # the keeper would end the connection, and all terminals with it
            data = protocol.encode({**request, "number": answer["number"], **too_long(answer)})
        try:
            with self._lock:
                connection.sendall(data)
        except OSError:
            pass  # the keeper is gone

    def _client_path(self, path: str) -> str:
        """Return a path as the client writes it: its workspace may be behind a symbolic link."""
        workspace = meta.read(self._session)["workspace_path"]
        if self._directory is None or os.path.realpath(self._directory) != workspace:
            return path
        if path == workspace or path.startswith(workspace.rstrip("/") + "/"):
            return self._directory.rstrip("/") + path[len(workspace.rstrip("/")) :]
        return path


def too_long(answer: Message) -> Message:
    """Return what takes the place of an answer that is too long: nothing, or an error for what passes."""
    error = {"code": -32603, "message": f"the answer is longer than {protocol.MAX_MESSAGE} bytes"}
    return {"answer": {"error": error}} if "answer" in answer else {"result": None}


def offers_of(client: Client) -> list[str]:
    """Return what the client can lend, as the keeper calls it; it may know what nobody here knows."""
    offers = {
        "others": True,
        "fs/read_text_file": client.reads,
        "fs/write_text_file": client.writes,
        "terminal": client.terminals,
    }
    return [name for name, offered in offers.items() if offered]
