"""The process of a keeper of any kind: what it starts with, how it reports that it is ready, how it exits.

It gets two arguments: the session's directory, and a socket to the command that started it. On the
socket it receives the descriptors of the session's lock and of its log file, and the request as a line of
JSON. If the command exits without sending them, the keeper exits too. See spawn.py.

A keeper may outlive the files that it was started from: an upgrade replaces them, and a module that is
imported after that may be missing, or may not fit those in memory. So every module of agh that a keeper can
need is loaded before it reports that it is ready, and so are the source of the leash and the modules of
Python that only failures need. Other modules of Python are imported when they are needed, if ever, since an
upgrade of agh does not touch them: hashlib takes 3.5 MB, zoneinfo and difflib 0.4 MB.
"""

from __future__ import annotations

import _socket
import gc
import os
import signal
import sys
from collections.abc import Callable
from contextlib import closing, redirect_stderr, suppress
from io import StringIO
from struct import calcsize, unpack
from typing import Any, NoReturn

import orjson

from agh.core.events import timestamp
from agh.errors import AghError, Bug, NoDescriptors
from agh.home import Session
from agh.keeper.leash.ahead import adopt_orphans, leave_tree, load_leash
from agh.store.lock import Lock


class Ready:
    """Reports to the command that started the keeper: what the agent asks, then how the start ended."""

    def __init__(self, fd: int) -> None:
        self._fd = fd

    def succeeded(self, hello: dict[str, Any]) -> None:
        """Report that the session is live."""
        self._report({"ok": hello})

    def failed(self, error: AghError) -> None:
        """Report why the session could not be started."""
        self._report({"error": error.for_relay()})

    def queued(self, hello: dict[str, Any]) -> None:
        """Report that the agent is waiting for a slot in its place, and prompts are queued."""
        self._write({"queued": hello})

    def asked(self, request_id: str) -> None:
        """Report that the agent asks for a permission, or a question, before the session is live."""
        self._write({"request": request_id})

    def _report(self, message: dict[str, Any]) -> None:
        if self._fd >= 0:
            self._write(message)
            os.close(self._fd)
            self._fd = -1

    def _write(self, message: dict[str, Any]) -> None:
        if self._fd >= 0:
            signal.signal(signal.SIGPIPE, signal.SIG_IGN)
            with suppress(OSError):
                os.write(self._fd, orjson.dumps(message, option=orjson.OPT_APPEND_NEWLINE))


def run(keep: Callable[[Lock, Ready, Any], None], prepare: Callable[[], object] = lambda: None) -> NoReturn:
    """Run `keep` as this process and exit; everything is on disk by then, so there is nothing to clean up.

    `prepare` is called before the request is there, while the command is still busy with it.
    """
    session, fd = Session.at(sys.argv[1]), int(sys.argv[2])
    leave_tree()
    os.set_inheritable(fd, False)
    os.chdir("/")
    signal.signal(signal.SIGUSR1, lambda *_: None)  # it pauses a session; one that starts does not die of it
    load_leash()
    with redirect_stderr(StringIO()) as warnings:  # there is no log yet
        prepare()
    gc.freeze()  # what is loaded by now stays: no collection needs to look at it again
    gc.enable()
    request, descriptors = _receive_request(fd)
    if not descriptors:
        os._exit(0)
    lock_fd, log_fd = descriptors
    os.set_inheritable(lock_fd, False)
    for stream in (1, 2):
        os.dup2(log_fd, stream)
    os.close(log_fd)
    print(warnings.getvalue(), end="", file=sys.stderr, flush=True)
    ready, lock = Ready(fd), Lock(lock_fd, session)
    adopt_orphans()  # if a leash is killed, what was below it comes to us
    code = 0
    try:
        keep(lock, ready, request)
    except AghError as error:
        log(f"{error.code}: {error.message}")
        lock.release()  # first: the command may try again as soon as it gets the failure
        ready.failed(error)
        code = error.exit
    except Exception as error:
        cause = explain_system(error) or _report_bug(error, session.directory)
        log(f"{cause.code}: {cause.message}")
        lock.release()
        ready.failed(cause)
        code = cause.exit
    os._exit(code)


def explain_system(error: Exception) -> AghError | None:
    """Return what the system lacked, if that is what failed."""
    try:
        from agh.keeper.failures import explain
    except (ImportError, OSError):
        return NoDescriptors()
    return explain(error)


def _report_bug(error: Exception, directory: str) -> AghError:
    """Write the traceback to keeper.log, and return the error for the command."""
    import traceback

    from agh.adapters.redactions import redactor_for

    hide = redactor_for(os.environ, None).text  # the message may quote the agent
    log(hide(traceback.format_exc()))
    return Bug(hide(f"{type(error).__name__}: {error}"), hint=f"see {directory}/keeper.log")


def _receive_request(fd: int) -> tuple[dict[str, Any], list[int]]:
    """Return the request and the descriptors that came with it; no descriptors if the command is gone."""
    with closing(_socket.socket(fileno=os.dup(fd))) as connection:
        line, rights, _, _ = connection.recvmsg(1 << 16, _socket.CMSG_LEN(calcsize("2i")))
        while line and not line.endswith(b"\n"):
            more = connection.recv(1 << 16)
            line = line + more if more else b""
    if not line or not rights:
        return {}, []
    ((_, _, descriptors),) = rights
    return orjson.loads(line), list(unpack("2i", descriptors))


def preload() -> None:
    """Import what the session needs from now on, and what only a failure or a notification needs."""
    gc.disable()
    import agh.core.acp.usage_limit
    import agh.core.diff
    import agh.core.redaction.hidden
    import agh.core.redaction.secret_shapes
    import agh.core.settings.mcp
    import agh.core.settings.toml_text
    import agh.keeper.agent.incoming
    import agh.keeper.agent.restore
    import agh.keeper.failures
    import agh.keeper.lending
    import agh.keeper.notify.plan
    import agh.keeper.verbs  # noqa: F401

    gc.freeze()  # what is loaded by now stays: no collection needs to look at it again
    gc.enable()


def log(text: str) -> None:
    """Write a line to keeper.log, if there is room for it."""
    try:
        os.write(2, f"{timestamp()} {text}\n".encode(errors="replace"))
    except OSError:
        pass
