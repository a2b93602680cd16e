"""The program under test: run by exec, or in this process if that makes no difference.

A command whose process matters is always the installed program: one that starts a session or an agent ahead,
waits, follows, asks on a terminal, or is killed. A command that works alone or asks a keeper gives the same
answer in this process and spares the start of an interpreter, which takes a hundred times as long as the
command; tests/test_program.py compares the two. With AGH_TEST_EXEC everything is run by exec.
"""

from __future__ import annotations

import io
import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO, Any

from agh.adapters import registry
from agh.cli.main import run
from agh.home import Session, is_session_id
from agh.store import lock
from tests.support.processes import children_of
from tests.support.wait import PATIENCE

AGH = str(Path(sys.executable).with_name("agh"))
ALWAYS_EXEC = bool(os.environ.get("AGH_TEST_EXEC"))
WORKING_ALONE = {
    *("agent list", "agent show", "completion", "config get", "config path", "config show"),
    *("config validate", "db build", "db query", "doctor", "plugins list", "session archive"),
    *("session commands", "session events", "session export", "session history", "session list"),
    *("session permissions", "session questions", "session queue", "session recap", "session redact"),
    *("session last", "session rename", "session repair", "session search", "session status"),
    *("session transcript",),
    *("session usage", "skill show", "workspace add", "workspace list", "workspace remove"),
    *("workspace show",),
    *("agent install", "agent search", "agent uninstall", "agent update", "config set", "inbox"),
    *("session answer", "session approve", "session cancel", "session checkpoint", "session delete"),
    *("session deny", "session detach", "session import", "session prune", "session set", "session stop"),
}
ASKING_A_KEEPER = {"session prompt", "session resume"}  # and starting one unless the session is live
STARTING_A_KEEPER = {"session ensure", "session fork", "session new"}
# To follow, to count without click, to start an agent, or to set an alarm: a process matters after all.
NEVER_HERE = {"-f", "--follow", "-h", "--help", "--count", "--from-agent", "--timeout"}
AT_START = ("PYTHON", "LC_", "LANG", "TZ", "LD_", "MALLOC_")  # variables that an interpreter reads only once
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGPIPE, signal.SIGCHLD, signal.SIGWINCH)
Result = subprocess.CompletedProcess[Any]


class Agh:
    """The program: `agh(...)` runs a command to its end, `agh.start(...)` leaves it running.

    A keeper that a command starts in this process is our child. Its pid is added to `children`, whose owner
    waits for it; without an owner, only the installed program starts keepers.
    """

    def __init__(self, children: list[int] | None = None) -> None:
        self._children = children

    def __call__(
        self,
        *args: object,
        code: int | None = 0,
        timeout: float = 60,
        text: bool = True,
        by_exec: bool = ALWAYS_EXEC,
        **options: Any,
    ) -> Result:
        """Run a command; fail the test unless it exits with `code` (None for any)."""
        words = [str(arg) for arg in args]
        if not by_exec and can_run_here(words, options, may_start=self._children is not None):
            before = children_of(os.getpid()) if self._children is not None else []
            result = in_process(*words, text=text, **options)
            if self._children is not None:
                self._children += {*children_of(os.getpid())} - {*before}
        else:
            if options.get("input") is None:
                options.setdefault("stdin", subprocess.DEVNULL)
            options = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **options}
            result = subprocess.run([AGH, *words], timeout=timeout, text=text, **options)
        assert code is None or result.returncode == code, (result.returncode, result.stdout, result.stderr)
        return result

    def start(self, *args: object, **options: Any) -> subprocess.Popen[Any]:
        """Start the installed program."""
        return subprocess.Popen([AGH, *map(str, args)], **{"stdin": subprocess.DEVNULL, **options})


def can_run_here(words: list[str], options: Mapping[str, Any], *, may_start: bool = False) -> bool:
    """Tell whether a command does the same in this process: it works alone, and needs nothing special.

    One that asks a keeper only does if the session is live, or if it `may_start` one.
    """
    environ, names = options.get("env") or os.environ, {" ".join(words[:1]), " ".join(words[:2])}
    allowed = WORKING_ALONE | (ASKING_A_KEEPER | STARTING_A_KEEPER if may_start else set())
    return (
        bool(names & allowed or (names & ASKING_A_KEEPER and _is_live(words[2:3], environ)))
        and not NEVER_HERE & {*words}
        and options.keys() <= {"cwd", "env", "input"}
        and _read_at_start(environ) == _AT_START
        and "AGH_DEBUG" not in environ
        and threading.current_thread() is threading.main_thread()
    )


def _is_live(words: list[str], environ: Mapping[str, str]) -> bool:
    """Tell whether the words are the id of a session that has a keeper."""
    return any(
        is_session_id(word) and lock.is_held(Session.at(f"{environ['AGH_HOME']}/sessions/{word}"))
        for word in words
    )


def _read_at_start(environ: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in environ.items() if name.startswith(AT_START)}


_AT_START = _read_at_start(os.environ)


def in_process(
    *args: str,
    cwd: str | os.PathLike[str] | None = None,
    env: Mapping[str, str] | None = None,
    input: str | bytes | None = None,
    text: bool = True,
) -> Result:
    """Run a command line in this process; return what the program would print and its exit number.

    Never for a command that starts a keeper, waits or installs a signal handler for good.
    """
    data = input.encode() if isinstance(input, str) else input
    with ExitStack() as stack:
        out, errors = (stack.enter_context(tempfile.TemporaryFile()) for _ in range(2))
        with _surroundings([AGH, *args], cwd, env), _streams(data, out, errors):
            code = _exit_number(args)
        printed = [_contents(file) for file in (out, errors)]
    return subprocess.CompletedProcess([AGH, *args], code, *(map(_text, printed) if text else printed))


def in_process_on(terminal: IO[bytes], *args: str, env: Mapping[str, str]) -> int:
    """Run a command line in this process, with stdout and stderr on a terminal; return its exit number."""
    with _surroundings([AGH, *args], None, env), _streams(None, terminal, terminal):
        return _exit_number(args)


def _exit_number(args: tuple[str, ...]) -> int:
    for cached in (registry.manager, registry.strategies, registry.offered_agents):
        cached.cache_clear()  # a process of its own would ask the plugins that there are now
    try:
        return run(args)
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(end.code is not None)


def _contents(file: IO[bytes]) -> bytes:
    file.seek(0)
    return file.read()


def _text(data: bytes) -> str:
    return data.decode().replace("\r\n", "\n").replace("\r", "\n")  # as subprocess does


@contextmanager
def _surroundings(
    argv: list[str], cwd: str | os.PathLike[str] | None, env: Mapping[str, str] | None
) -> Iterator[None]:
    """Give the block these arguments, this directory and environment; leave the process as it was."""
    before, here, environ = sys.argv, os.open(".", os.O_PATH), dict(os.environ)
    umask = os.umask(0o077)
    os.umask(umask)
    handlers = {number: signal.getsignal(number) for number in SIGNALS}
    try:
        sys.argv = argv
        if cwd is not None:
            os.chdir(cwd)
        if env is not None:
            _set_environ(env)
        yield
    finally:
        for number, handler in handlers.items():
            if signal.getsignal(number) is not handler:
                signal.signal(number, handler)
        os.umask(umask)
        if dict(os.environ) != environ:
            _set_environ(environ)
        os.fchdir(here)
        os.close(here)
        sys.argv = before


def _set_environ(environ: Mapping[str, str]) -> None:
    os.environ.clear()
    os.environ.update(environ)


@contextmanager
def _streams(data: bytes | None, out: IO[bytes], errors: IO[bytes]) -> Iterator[None]:
    """Let the block read `data` and write to the files, by Python's streams and by descriptors 0, 1 and 2."""
    names = ("stdin", "stdout", "stderr")
    streams = [getattr(sys, name) for name in names]
    saved = [os.dup(number) for number in range(3)]
    with tempfile.TemporaryFile() if data is not None else open(os.devnull, "rb") as source:
        if data is not None:
            source.write(data)
            source.seek(0)
        try:
            for number, file in enumerate((source, out, errors)):
                os.dup2(file.fileno(), number)
                setattr(sys, names[number], _stream(number, getattr(sys, f"__{names[number]}__")))
            yield
        finally:
            for number, name in enumerate(names):
                getattr(sys, name).close()
                setattr(sys, name, streams[number])
                os.dup2(saved[number], number)
                os.close(saved[number])


def _stream(number: int, like: io.TextIOWrapper) -> io.TextIOWrapper:
    binary = open(number, "wb" if number else "rb", closefd=False)  # noqa: SIM115
    return io.TextIOWrapper(binary, like.encoding, like.errors, line_buffering=number == 2)


def shell(script: str, *args: object, **options: Any) -> subprocess.CompletedProcess[str]:
    """Run a bash script in which `$AGH` is the program and `$1`… are `args`."""
    environ = {**(options.pop("env", None) or os.environ), "AGH": AGH}
    return subprocess.run(
        ["bash", "-c", script, "bash", *map(str, args)],
        env=environ,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        **options,
    )


class Follower:
    """A running program whose standard output is read as it comes."""

    def __init__(self, *args: object) -> None:
        self.process = Agh().start(*args, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.pieces: list[bytes] = []
        self._rest = b""

    def line(self) -> str:
        """Return the next whole line."""
        assert self.process.stdout is not None
        fd, deadline = self.process.stdout.fileno(), time.monotonic() + PATIENCE
        while b"\n" not in self._rest:
            assert select.select([fd], [], [], max(0.0, deadline - time.monotonic()))[0], "no line came"
            data = os.read(fd, 1 << 20)
            assert data, ("the program ended", self._rest, self.errors())
            self.pieces.append(data)
            self._rest += data
        line, _, self._rest = self._rest.partition(b"\n")
        return line.decode()

    def event(self) -> dict[str, Any]:
        """Return the next line, parsed."""
        event: dict[str, Any] = json.loads(self.line())
        return event

    def errors(self) -> str:
        assert self.process.stderr is not None
        return self.process.stderr.read().decode()

    def ended(self) -> int:
        """Check that nothing more was printed; return the exit number."""
        assert self.process.stdout is not None
        assert self._rest + self.process.stdout.read() == b""
        return self.process.wait(PATIENCE)

    def __enter__(self) -> Follower:
        return self

    def __exit__(self, *exc: object) -> None:
        self.process.kill()
        self.process.communicate()
