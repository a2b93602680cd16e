"""The program under test, forked from a process that has imported it and done nothing else.

Most tests ask what a command does, not how its interpreter starts, which takes ten times as long as the rest.
So each test process has a warm process beside it, which forks a child for every command. The child has the
streams, directory, environment and umask that it would be started with, takes the program's own entry point,
and ends with its exit code. What only a new interpreter gives is run by exec: a terminal, another locale,
settings of Python's own, another user, another session. So is a command that may be killed while it starts,
and everything in a soak, or if AGH_TEST_EXEC is set.
"""

from __future__ import annotations

import inspect
import io
import os
import pickle
import select
import signal
import socket
import subprocess
import sys
import threading
from contextlib import suppress
from importlib import import_module
from typing import Any, NoReturn

AT_START = ("PYTHON", "LC_", "LANG", "TZ", "LD_", "MALLOC_")  # variables that an interpreter reads but once
MESSAGE = 1 << 17
ALWAYS_EXEC = bool(os.environ.get("AGH_TEST_EXEC") or os.environ.get("AGH_SOAK"))
_exec: Any = subprocess.Popen._execute_child  # type: ignore[attr-defined]
_parameters = inspect.signature(_exec)


class Program(subprocess.Popen[Any]):
    """The installed program `args[0]` as Popen would run it, by fork where that makes no difference."""

    _status: socket.socket | None = None

    def _execute_child(self, *args: Any) -> None:
        given = _parameters.bind(self, *args).arguments
        pipes = (given["p2cread"], given["c2pwrite"], given["errwrite"])
        streams = [number if fd == -1 else fd for number, fd in enumerate(pipes)]
        env = {os.fspath(k): os.fspath(v) for k, v in (given["env"] or os.environ).items()}
        umask = os.umask(0o077)
        os.umask(umask)
        request = pickle.dumps((list(map(os.fspath, given["args"])), given["cwd"] or os.getcwd(), env, umask))
        if ALWAYS_EXEC or _needs_exec(given, streams, env) or len(request) > MESSAGE:
            _exec(self, *args)
            return
        self._status, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            socket.send_fds(warm.requests(), [request], [theirs.fileno(), *streams])
        self.pid = int(self._status.recv(64))
        self._child_created = True
        ends = ("p2cread", "p2cwrite", "c2pread", "c2pwrite", "errread", "errwrite")
        self._close_pipe_fds(*(given[end] for end in ends))  # type: ignore[attr-defined]

    def _try_wait(self, flags: int) -> tuple[int, int]:
        if self._status is None:
            return super()._try_wait(flags)  # type: ignore[misc,no-any-return]
        if flags & os.WNOHANG and not select.select([self._status], [], [], 0)[0]:
            return 0, 0
        with self._status:
            return self.pid, int(self._status.recv(64))

    def _internal_poll(self, *args: Any, **kwargs: Any) -> int | None:
        if self._status is None:
            return super()._internal_poll(*args, **kwargs)  # type: ignore[misc,no-any-return]
        with self._waitpid_lock:  # type: ignore[attr-defined]
            if self.returncode is None:
                pid, status = self._try_wait(os.WNOHANG)
                if pid:
                    self._handle_exitstatus(status)  # type: ignore[attr-defined]
        return self.returncode


def _needs_exec(given: dict[str, Any], streams: list[int], env: dict[str, str]) -> bool:
    special = ("preexec_fn", "pass_fds", "shell", "start_new_session", "uid", "gid", "gids")
    return (
        any(given[name] for name in special)
        or (given["umask"], given["process_group"]) != (-1, -1)
        or _at_start(env) != warm.environ
        or any(map(os.isatty, streams))
    )


def _at_start(env: dict[str, str]) -> dict[str, str]:
    return {key: value for key, value in env.items() if key.startswith(AT_START)}


class Warm:
    """The warm process of this test process, started when it is first needed. It ends with us."""

    def __init__(self) -> None:
        self.environ = _at_start(dict(os.environ))
        self._requests: socket.socket | None = None
        self._starting = threading.Lock()

    def requests(self) -> socket.socket:
        with self._starting:
            if self._requests is None:
                self._requests, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
                with theirs:
                    theirs.set_inheritable(True)
                    env = {**self.environ, "PATH": os.environ["PATH"]}  # no home: it belongs to no test
                    argv = [sys.executable, "-P", __file__, str(theirs.fileno())]
                    os.posix_spawn(sys.executable, argv, env)
            return self._requests


warm = Warm()


def serve(requests: socket.socket) -> NoReturn:
    """Be the warm process: fork a child for each request, say its pid and, when it has ended, its status."""
    wakes, woken = socket.socketpair()
    for end in (wakes, woken):
        end.setblocking(False)
    signal.set_wakeup_fd(woken.fileno())
    signal.signal(signal.SIGCHLD, lambda *_: None)
    children: dict[int, socket.socket] = {}
    while True:
        ready, _, _ = select.select([requests, wakes], [], [])
        if wakes in ready:
            with suppress(BlockingIOError):
                wakes.recv(1 << 10)
            while children and (ended := os.waitpid(-1, os.WNOHANG))[0]:
                pid, status = ended
                with suppress(OSError), children.pop(pid) as told:
                    told.sendall(b"%d" % status)
        if requests in ready:
            message, descriptors, _, _ = socket.recv_fds(requests, MESSAGE, 4)
            if not message:
                os._exit(0)
            told, streams = socket.socket(fileno=descriptors[0]), descriptors[1:]
            if (pid := os.fork()) == 0:
                become(*pickle.loads(message), streams)
            told.sendall(b"%d" % pid)
            children[pid] = told
            for fd in streams:
                os.close(fd)


def become(argv: list[str], cwd: str, env: dict[str, str], umask: int, streams: list[int]) -> NoReturn:
    """Be the program."""
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    for number, fd in enumerate(streams):
        os.dup2(fd, number)
    os.closerange(3, 1 << 10)
    os.chdir(cwd)
    os.umask(umask)
    os.environ.clear()
    os.environ.update(env)
    sys.argv = argv
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        before = getattr(sys, name)
        binary = open(number, "wb" if number else "rb", closefd=False)  # noqa: SIM115
        text = io.TextIOWrapper(binary, before.encoding, before.errors, line_buffering=number == 2)
        setattr(sys, name, text)
        setattr(sys, f"__{name}__", text)
    from agh.__main__ import main

    code: object = 1
    try:
        main()
        code = 0
    except SystemExit as end:
        code = end.code
    except BaseException:
        sys.excepthook(*sys.exc_info())
    with suppress(OSError):
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(code if isinstance(code, int) else 0 if code is None else 1)


if __name__ == "__main__":
    sys.path[0:0] = [os.path.dirname(sys.executable)]  # as for a program that is there
    from agh.cli.main import COMMANDS
    from agh.cli.session.group import session

    for place in (*COMMANDS.values(), *session.modules.values()):
        import_module(place.partition(":")[0])
    serve(socket.socket(fileno=int(sys.argv[1])))
