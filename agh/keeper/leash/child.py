"""A process below a leash, as the keeper sees it: its output as it comes, and its end.

When `over` is true, all its output was passed on and `exit` says how it ended; nothing that it started is
left. If the leash itself was killed (`exit` is None), its orphans are ended here: see adopted.py.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import orjson

from agh.keeper.leash.adopted import end_adopted
from agh.keeper.leash.ahead import LeashProcess, use_leash
from agh.keeper.leash.orphans import now_ticks
from agh.keeper.leash.spawn import start_leash
from agh.keeper.loop import WRITE, Loop

PIPE_SIZE = 1 << 20
READ_SIZE = 1 << 18
INBOX_LIMIT = 64 << 20
KILL_LIMIT = 8.0
_leashes: set[int] = set()  # of this process; what is below them is not to be ended with another's


class Leashed:
    """A leashed process. `on_output(fd, data)` gets what comes on 1 and 2, then empty data at its end."""

    def __init__(
        self,
        loop: Loop,
        argv: Sequence[str],
        environ: Mapping[str, str],
        cwd: str | int,
        on_output: Callable[[int, bytes], None],
        on_over: Callable[[], None],
        *,
        merged: bool = False,
    ) -> None:
        self.pid: int | None = None
        self.exit: dict[str, Any] | None = None
        self.start_error: str | None = None
        self.over = False
        self._loop, self._on_output, self._on_over = loop, on_output, on_over
        self._since = now_ticks()
        self._process = _use_or_start_leash(argv, environ, cwd, merged=merged)
        _leashes.add(self._process.leash_pid)
        _widen(self._process.stdout)
        self._inbox = bytearray()
        self._closing = False
        self._status = b""
        process = self._process
        self._open = {process.stdin, process.stdout, process.stderr, process.status} - {-1}
        for fd in self._open:
            os.set_blocking(fd, False)
        loop.watch(self._process.stdout, lambda: self._read_output(1, self._process.stdout))
        if not merged:
            loop.watch(self._process.stderr, lambda: self._read_output(2, self._process.stderr))
        loop.watch(self._process.status, self._read_status)

    @property
    def leash_pid(self) -> int:
        """Return the pid of its leash, which is the ancestor of everything it starts."""
        return self._process.leash_pid

    def write(self, data: bytes) -> None:
        """Send to its stdin without blocking; if it has stopped reading and too much waits, close it."""
        if self._process.stdin not in self._open:
            return
        self._inbox += data
        if len(self._inbox) > INBOX_LIMIT:
            self.close_stdin()
        else:
            self._flush()

    def close_stdin(self) -> None:
        self._close(self._process.stdin)

    def close_stdin_when_sent(self) -> None:
        self._closing = True
        self._flush()

    def terminate(self) -> None:
        self._order(b"T")

    def kill(self) -> None:
        self._order(b"K")

    def end(self, *, eof: float, term: float) -> None:
        """Close its stdin, then TERM, then KILL, each after its grace; return when nothing is left."""
        self.close_stdin()
        for grace, escalate in ((eof, self.terminate), (term, self.kill)):
            if self._loop.run_until(lambda: self.over, grace):
                return
            escalate()
        self._loop.run_until(lambda: self.over, KILL_LIMIT)

    def describe_end(self) -> str:
        """Return how the process ended, for people."""
        if self.start_error is not None:
            return self.start_error
        if self.exit is None:
            return "was killed, because its parent process (the leash) died"
        if self.exit.get("signal") is not None:
            return f"was killed by signal {self.exit['signal']}"
        return f"exited with code {self.exit.get('exit')}"

    def _flush(self) -> None:
        try:
            while self._inbox:
                sent = os.write(self._process.stdin, self._inbox[:READ_SIZE])
                del self._inbox[:sent]
        except BlockingIOError:
            self._loop.watch(self._process.stdin, self._flush, WRITE)
        except OSError:
            self.close_stdin()
        else:
            self._loop.forget(self._process.stdin)
            if self._closing:
                self.close_stdin()

    def _read_output(self, stream: int, fd: int) -> None:
        data = self._read(fd)
        if data is not None:
            self._on_output(stream, data)

    def _read_status(self) -> None:
        data = self._read(self._process.status)
        if data is None:
            return
        *lines, self._status = (self._status + data).split(b"\n")
        for report in map(orjson.loads, lines):
            self.pid = report.get("pid", self.pid)
            self.start_error = report.get("error", self.start_error)
            if "exit" in report:
                self.exit = report
        if not data:
            self._finish()

    def _finish(self) -> None:
        """Read what is left in the pipes: the leash and everything below it is gone."""
        try:
            for stream, fd in ((2, self._process.stderr), (1, self._process.stdout)):
                while fd in self._open and (data := self._read(fd)) is not None:
                    self._on_output(stream, data)
        finally:  # it is over, whatever its last output was
            for fd in list(self._open):
                self._close(fd)
            os.close(self._process.life)
            os.waitpid(self._process.leash_pid, 0)
            _leashes.discard(self._process.leash_pid)
            if self.exit is None and self.start_error is None:
                end_adopted(_leashes, self._since)
            self.over = True
            self._on_over()

    def _read(self, fd: int) -> bytes | None:
        """Return what there is to read: empty at the end, None if there is nothing now."""
        try:
            data = os.read(fd, READ_SIZE)
        except BlockingIOError:
            return None
        except OSError:
            data = b""
        if not data:
            self._close(fd)
        return data

    def _close(self, fd: int) -> None:
        if fd in self._open:
            self._open.discard(fd)
            self._loop.forget(fd)
            os.close(fd)

    def _order(self, order: bytes) -> None:
        if not self.over:
            try:
                os.write(self._process.life, order)
            except OSError:
                pass


def _use_or_start_leash(
    argv: Sequence[str], environ: Mapping[str, str], cwd: str | int, *, merged: bool
) -> LeashProcess:
    """Start `argv` below the leash that was forked ahead, or else below one that is started now."""
    if isinstance(cwd, str) and not merged and (waiting := use_leash(list(argv), dict(environ), cwd)):
        return LeashProcess(*waiting)
    return start_leash(argv, environ, cwd, merged=merged)


def _widen(pipe: int) -> None:
    """Make room for a burst, if allowed: the more a single read takes, the fewer commits it costs."""
    try:
        fcntl.fcntl(pipe, fcntl.F_SETPIPE_SZ, PIPE_SIZE)
    except (AttributeError, OSError):
        pass
