"""The process of a keeper of any kind: what it is given, whom it tells that it is ready, and how it ends.

`python -m MODULE DIR SOCKET_FD`: the session's directory, and a socket to the command that began it. There
come the orders: descriptors of the session's held lock and of its log, and what the command wants, in a line
of JSON. If none come before the command is gone, there is nothing to keep. See spawn.py.
"""

from __future__ import annotations

import os
import signal
import socket
import sys
from collections.abc import Callable
from typing import Any, NoReturn

import orjson

from agh.core.events import timestamp
from agh.errors import AghError, Bug
from agh.store.lock import Lock


class Ready:
    """The way back to the command that gave the orders: one line, then nothing."""

    def __init__(self, fd: int) -> None:
        self._fd = fd

    def succeeded(self, hello: dict[str, Any]) -> None:
        self._tell({"ok": hello})

    def failed(self, error: AghError) -> None:
        self._tell({"error": error.for_relay()})

    def _tell(self, message: dict[str, Any]) -> None:
        if self._fd < 0:
            return
        signal.signal(signal.SIGPIPE, signal.SIG_IGN)
        try:
            os.write(self._fd, orjson.dumps(message, option=orjson.OPT_APPEND_NEWLINE))
        except OSError:
            pass
        os.close(self._fd)
        self._fd = -1


def run(keep: Callable[[Lock, Ready, dict[str, Any]], None]) -> NoReturn:
    """Be a keeper whose story is `keep`, and end: what it did is on disk, so nothing has to be put away."""
    directory, fd = sys.argv[1], int(sys.argv[2])
    os.set_inheritable(fd, False)
    os.chdir("/")
    intent, descriptors = _orders(fd)
    if not descriptors:
        os._exit(0)
    lock, file = descriptors
    os.set_inheritable(lock, False)
    for stream in (1, 2):
        os.dup2(file, stream)
    os.close(file)
    ready, held = Ready(fd), Lock(lock, directory)
    code = 0
    try:
        keep(held, ready, intent)
    except AghError as error:
        log(f"{error.code}: {error.message}")
        held.release()  # whoever hears of the failure may try again at once
        ready.failed(error)
        code = error.exit
    except Exception as error:
        import traceback

        from agh.core.redact import redactor

        hide = redactor(os.environ).text  # what it stumbled over may be the agent's words
        log(hide(traceback.format_exc()))
        ready.failed(Bug(hide(f"{type(error).__name__}: {error}"), hint=f"see {directory}/keeper.log"))
        code = Bug.exit
    os._exit(code)


def _orders(fd: int) -> tuple[dict[str, Any], list[int]]:
    """What is wanted, and the descriptors that came with it; none if nobody is there to give orders."""
    with socket.socket(fileno=os.dup(fd)) as connection:
        line, descriptors, _, _ = socket.recv_fds(connection, 1 << 16, 2)
        while line and not line.endswith(b"\n"):
            more = connection.recv(1 << 16)
            line = line + more if more else b""
    return (orjson.loads(line), list(descriptors)) if line else ({}, [])


def log(text: str) -> None:
    """A line in keeper.log."""
    print(f"{timestamp()} {text}", file=sys.stderr, flush=True)
