"""Frames in, frames out: JSON-RPC 2.0, one JSON object per line, on two file descriptors.

Promises: frames are written whole and in order, at the next `flush` at the latest. Never waits for input
longer than its caller allows, and never interprets the frames it carries.
"""

from __future__ import annotations

import json
import os
import select

from agh_echo.kinds import Frame

_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


class Failure(Exception):
    """Ends a request with a JSON-RPC error."""

    def __init__(self, code: int, message: str, data: object = None) -> None:
        super().__init__(message)
        self.error = {"code": code, "message": message} | ({} if data is None else {"data": data})


def parse(line: bytes) -> Frame:
    """Return the frame in a line. Raise Failure if there is none."""
    try:
        frame = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise Failure(-32700, f"Parse error: {error}") from None
    if not isinstance(frame, dict):
        raise Failure(-32600, "Invalid request: a frame is an object")
    return frame


class Wire:
    """A connection to the client, with buffers for partial lines in and pending frames out."""

    def __init__(self, source: int = 0, sink: int = 1) -> None:
        self.source, self.sink = source, sink
        self._partial = bytearray()
        self._pending = bytearray()

    def receive(self, timeout: float | None) -> list[bytes] | None:
        """Return the complete lines received; none after `timeout` seconds, None at the end of the input."""
        if not select.select([self.source], [], [], timeout)[0]:
            return []
        data = os.read(self.source, 1 << 20)
        if not data:
            return None
        self._partial += data
        if b"\n" not in data:
            return []
        *lines, rest = bytes(self._partial).split(b"\n")
        self._partial = bytearray(rest)
        return [line for line in lines if line.strip()]

    def send(self, frame: Frame) -> None:
        """Queue a frame for writing."""
        frame = {"jsonrpc": "2.0", **frame}
        try:
            self.write(_encode(frame).encode() + b"\n")
        except UnicodeEncodeError:  # a lone surrogate, which only a \u escape can carry
            self.write(json.dumps(frame).encode() + b"\n")

    def notify(self, method: str, params: Frame) -> None:
        self.send({"method": method, "params": params})

    def write(self, data: bytes) -> None:
        """Queue bytes for writing, and flush if there are many."""
        self._pending += data
        if len(self._pending) > 1 << 16:
            self.flush()

    def flush(self) -> None:
        """Write everything that is queued."""
        data, self._pending = memoryview(self._pending), bytearray()
        while data:
            data = data[os.write(self.sink, data) :]
