"""A connection to the far end of a mirror: a program such as ssh, with lines of JSON on its streams.

Promises: sending never blocks; `on_end` is called once, when the program has closed its output, with why.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from typing import Any

import orjson

from agh.adapters.far_command import FarCommand
from agh.errors import AghError, PlaceGone
from agh.keeper.loop import READ, WRITE, Loop
from agh.sessions.elsewhere.command import explain_end

TAIL = 16 << 10  # bytes of stderr that may say why it ended
EXIT_LIMIT = 5.0  # seconds for a program that has closed its output


class Wire:
    """The program, as long as it runs. `on_line` gets each message."""

    def __init__(
        self,
        loop: Loop,
        command: FarCommand,
        on_line: Callable[[dict[str, Any]], None],
        on_end: Callable[[AghError | None], None],
    ) -> None:
        self._loop, self._command, self._on_line, self._on_end = loop, command, on_line, on_end
        self._received, self._errors, self._unsent = bytearray(), bytearray(), bytearray(command.preamble)
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(command.argv, stdin=pipe, stdout=pipe, stderr=pipe, cwd="/")
        assert self._process.stdin and self._process.stdout and self._process.stderr
        self._in, self._out, self._err = (
            stream.fileno() for stream in (self._process.stdin, self._process.stdout, self._process.stderr)
        )
        for fd in (self._in, self._out, self._err):
            os.set_blocking(fd, False)
        loop.watch(self._out, self._read)
        loop.watch(self._err, self._read_errors)
        self._flush()

    def send(self, message: dict[str, Any]) -> None:
        """Send a message as soon as the program takes it."""
        self._unsent += orjson.dumps(message, option=orjson.OPT_APPEND_NEWLINE)
        self._flush()

    def close(self) -> None:
        """End the connection without a word."""
        self._on_end = lambda error: None
        self._end()

    def _flush(self) -> None:
        try:
            while self._unsent:
                del self._unsent[: os.write(self._in, self._unsent)]
        except BlockingIOError:
            self._loop.watch(self._in, self._flush, WRITE)
            return
        except OSError:
            self._unsent.clear()  # it is about to end
        self._loop.forget(self._in)

    def _read(self) -> None:
        try:
            data = os.read(self._out, 1 << 20)
        except BlockingIOError:
            return
        if not data:
            self._end()
            return
        *lines, rest = data.split(b"\n")
        for line in lines:
            message = orjson.loads(bytes(self._received) + line)
            self._received.clear()
            self._on_line(message)
        self._received += rest

    def _read_errors(self) -> None:
        try:
            data = os.read(self._err, 1 << 16)
        except BlockingIOError:
            return
        if not data:
            self._loop.forget(self._err)
        self._errors += data
        del self._errors[: max(0, len(self._errors) - TAIL)]

    def _end(self) -> None:
        """Reap the program and say why it ended."""
        for fd in (self._in, self._out):
            self._loop.forget(fd)
        self._loop.watch(self._err, self._read_errors, READ)
        for stream in (self._process.stdin, self._process.stdout):
            assert stream is not None
            try:
                stream.close()
            except OSError:
                pass
        try:
            code = self._process.wait(EXIT_LIMIT)
        except subprocess.TimeoutExpired:
            self._process.kill()
            code = self._process.wait()
        self._read_errors()
        self._loop.forget(self._err)
        assert self._process.stderr is not None
        self._process.stderr.close()
        on_end, self._on_end = self._on_end, lambda error: None
        error = explain_end(self._command, code, bytes(self._errors))
        on_end(error or PlaceGone(self._command.place, f"{self._command.argv[0]} exited with {code}"))
