"""Bytes from an agent to JSON-RPC frames, and messages to bytes.

Promises: no bytes raise. Time is linear and memory bounded, however long a line is and in whatever pieces it
comes. `raw` is the line as it came, and JSON to both orjson and SQLite. Where the line is not, the least is
changed and `sanitized` says so: bad UTF-8 and lone surrogates become U+FFFD, NaN and Infinity become null, a
number beyond every float becomes a string, a byte order mark goes. What cannot be saved so is `Malformed`.

An integer beyond 64 bits stays whole in `raw`, while its parsed value is the nearest float. Of equal keys the
last one holds. A missing `"jsonrpc"`, `"params":null` and `"method":null` are forgiven: they do occur.
It never judges methods or their parameters, and the reason in a `Malformed` never quotes the agent.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

import orjson

if TYPE_CHECKING:
    from agh.core.redact import Redactor

MAX_LINE = 32 << 20
MAX_DEPTH = 200  # orjson writes 254 levels at most, and what is stored gets wrapped
MAX_VALUES = 300_000  # an empty list is 3 bytes on the wire and 80 in memory, an object of one member 250
MAX_NUMBER_REPAIR = 1 << 20  # bytes; this repair looks at every token
MAX_GROWTH = 1 << 20  # bytes; what stands for a bad byte has three
BLOCK = 1 << 16  # bytes
HEAD = 200  # bytes
MAX_ERROR_TEXT = 4_000  # characters, of the message and of the data
INTERNAL_ERROR = -32603

Id = int | str | None
Params = dict[str, Any] | list[Any] | None


class Request(NamedTuple):
    id: Id
    method: str
    params: Params
    raw: bytes
    sanitized: bool = False


class Response(NamedTuple):
    id: Id
    result: Any
    error: dict[str, Any] | None  # always with an int `code` and a str `message`
    raw: bytes
    sanitized: bool = False


class Notification(NamedTuple):
    method: str
    params: Params
    raw: bytes
    sanitized: bool = False


class Malformed(NamedTuple):
    reason: str
    length: int
    sha256: str
    head: str
    tail: str = ""  # of a line beyond the cap


Frame = Request | Response | Notification | Malformed


class Splitter:
    """Cuts a stream into lines. Of a line beyond the cap only its length, hash and ends are kept."""

    def __init__(self, max_line: int = MAX_LINE) -> None:
        self.max_line = max_line
        self._start_line()

    def _start_line(self) -> None:
        self._held = bytearray()
        self._length = 0
        self._sha256: Any = None  # while the line is beyond the cap
        self._tail = b""

    def feed(self, data: bytes) -> list[Frame]:
        frames: list[Frame] = []
        *lines, rest = data.split(b"\n")
        for line in lines:
            if self._length or len(line) > self.max_line:
                self._hold(line)
                frames += self.close()
            elif line and not line.isspace():
                frames.append(parse(line))
        if rest:
            self._hold(rest)
        return frames

    def close(self) -> list[Frame]:
        """The end of the stream, or of the line that is held."""
        line, length, sha256 = bytes(self._held), self._length, self._sha256
        tail = self._tail.decode(errors="replace")
        self._start_line()
        if sha256:
            reason = f"longer than {self.max_line} bytes"
            return [Malformed(reason, length, sha256.hexdigest(), _head(line), tail)]
        return [parse(line)] if line and not line.isspace() else []

    def _hold(self, piece: bytes) -> None:
        self._length += len(piece)
        if self._sha256:
            self._sha256.update(piece)
            self._tail = (self._tail + piece[-HEAD:])[-HEAD:]
            self._held += piece[: max(0, HEAD - len(self._held))]
            return
        self._held += piece
        if self._length > self.max_line:
            self._sha256 = _sha256(self._held)
            self._tail = bytes(self._held[-HEAD:])
            self._held = self._held[:HEAD]


def parse(line: bytes) -> Frame:
    if len(line) > 2 * MAX_DEPTH and (reason := outgrown(line)):
        return _malformed(reason, line)
    sanitized = False
    try:
        message, raw = orjson.loads(line), line
    except ValueError:
        repaired = _repair(line) if re.search(REPAIRABLE, line) else None
        if repaired is None:
            return _malformed("not JSON", line)
        raw, message = repaired
        sanitized = True
    if type(message) is not dict:
        return _malformed("not an object", line)
    id = message.get("id")
    if id is not None and type(id) is not int and type(id) is not str:
        return _malformed("its id is neither a 64-bit integer, a string nor null", line)
    method = message.get("method")
    if method is not None:
        if type(method) is not str:
            return _malformed("its method is not a string", line)
        params = message.get("params")
        if params is not None and type(params) is not dict and type(params) is not list:
            return _malformed("its params are neither an object nor an array", line)
        if "id" in message:
            return Request(id, method, params, raw, sanitized)
        return Notification(method, params, raw, sanitized)
    if "id" not in message:
        return _malformed("neither method nor id", line)
    error = message.get("error")
    if error is None and "result" in message:
        return Response(id, message["result"], None, raw, sanitized)
    if "error" in message:
        return Response(id, None, _normal_error(error), raw, sanitized)
    return _malformed("neither method, result nor error", line)


def encode_request(id: int | str, method: str, params: Params = None) -> bytes:
    return _encode({"jsonrpc": "2.0", "id": id, "method": method} | _unless_none("params", params))


def encode_notification(method: str, params: Params = None) -> bytes:
    return _encode({"jsonrpc": "2.0", "method": method} | _unless_none("params", params))


def encode_result(id: Id, result: Any) -> bytes:
    return _encode({"jsonrpc": "2.0", "id": id, "result": result})


def error_text(error: dict[str, Any]) -> str:
    """What a JSON-RPC error says, with its data."""
    message, details = str(error.get("message")), error.get("data")
    return message if details is None else f"{message}: {orjson.dumps(details).decode()}"


def redacted_error(error: dict[str, Any], redactor: Redactor) -> dict[str, Any]:
    """Return a JSON-RPC error that can be shown and stored: bounded, and without secrets."""
    clean = {
        "code": error.get("code"),
        "message": redactor.beginning(str(error.get("message")), MAX_ERROR_TEXT),
    }
    data = error.get("data")
    if data is not None:
        text = orjson.dumps(data)
        short = len(text) <= MAX_ERROR_TEXT
        clean["data"] = redactor.json(data) if short else redactor.beginning(text.decode(), MAX_ERROR_TEXT)
    return clean


def encode_error(id: Id, code: int, message: str, data: Any = None) -> bytes:
    error = {"code": code, "message": message} | _unless_none("data", data)
    return _encode({"jsonrpc": "2.0", "id": id, "error": error})


def _unless_none(key: str, value: Any) -> dict[str, Any]:
    return {} if value is None else {key: value}


def _encode(message: dict[str, Any]) -> bytes:
    try:
        return orjson.dumps(message, option=orjson.OPT_APPEND_NEWLINE)
    except TypeError:  # a lone surrogate (a file name from argv may hold one), or an integer beyond 64 bits
        text = json.dumps(message, separators=(",", ":")).encode()
        repaired = _repair(text)
        return (repaired[0] if repaired else text) + b"\n"


def _normal_error(error: Any) -> dict[str, Any]:
    match error:
        case {"code": int(code), "message": str()} if code is not True and code is not False:
            return error  # type: ignore[no-any-return]
        case str(message) | {"message": str(message)}:
            return {"code": INTERNAL_ERROR, "message": message, "data": error}
    return {"code": INTERNAL_ERROR, "message": "an error of no known form", "data": error}


def outgrown(line: bytes, max_values: int = MAX_VALUES, max_depth: int = MAX_DEPTH) -> str | None:
    """Return why the line must not be parsed, judged by what stands outside its strings."""
    opened = line.count(b"[") + line.count(b"{")
    if opened <= max_depth and (len(line) <= max_values or opened + line.count(b",") <= max_values):
        return None
    values = depth = 0
    for structure in _outside_strings(line):
        values += structure.count(b"[") + structure.count(b"{") + structure.count(b",")
        if values > max_values:
            return "too many values"
        for byte in structure.translate(None, NOT_BRACKETS):
            depth += 1 if byte in b"[{" else -1
            if depth > max_depth:
                return "nested too deeply"
            if depth < 0:
                return None  # not JSON, as the parser will find
    return None


def _backslashes(line: bytes, start: int) -> bytes:
    match = re.compile(rb"\\*+").match(line, start)
    return match[0] if match else b""


def _outside_strings(line: bytes) -> Iterator[bytes]:
    """Yield what stands outside of strings, block by block: all at once it would take many times the line."""
    inside = start = 0
    while start < len(line):
        end = start + BLOCK
        if line[end - 1 : end] == b"\\":  # an escape is never cut in two
            end += len(_backslashes(line, end)) + 1
        bare = line[start:end].replace(b"\\\\", b"").replace(b'\\"', b"")
        parts = bare.split(b'"')
        yield b"".join(parts[inside::2])
        inside ^= len(parts) + 1 & 1
        start = end


NOT_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))
# Whatever a repair could change has one of these in it; what is mere chatter is not tried.
REPAIRABLE = rb"[0-9\x80-\xff]|\\u|NaN|Infinity"
# Escapes are taken one after the other, or an escaped backslash would pass for the start of one. All but
# surrogates go by in a run.
SURROGATE = (
    rb"(?s)\\(?:[^u][^\\]*+(?:\\[^u][^\\]*+)*+|u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"
    rb"|(?P<lone>u[dD][89a-fA-F][0-9a-fA-F]{2}))"
)
# Possessive: a string without an end costs one pass, and not one for each of its quotes.
STRING_OR_NUMBER = (
    r'(?s)"(?:[^"\\]++|\\.)*+"?|-?Infinity|NaN|-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?'
)


def _repair(line: bytes) -> tuple[bytes, Any] | None:
    """Return the line with the least changed that makes it JSON, and its value."""
    text = valid_utf8(line.removeprefix(b"\xef\xbb\xbf"))
    if text is None:
        return None
    text = without_lone_surrogates(text)
    with suppress(ValueError):
        return text, orjson.loads(text)
    if len(text) <= MAX_NUMBER_REPAIR:
        text = re.sub(STRING_OR_NUMBER, _repair_number, text.decode()).encode()
        with suppress(ValueError):
            return text, orjson.loads(text)
    return None


def valid_utf8(line: bytes) -> bytes | None:
    """Return the line with U+FFFD for bytes that are not UTF-8; None when it would get much longer."""
    with suppress(UnicodeDecodeError):
        line.decode()
        return line
    text = line.decode(errors="replace").encode()
    return text if len(text) <= len(line) + MAX_GROWTH else None


def without_lone_surrogates(text: bytes, escape: bytes = rb"\ufffd") -> bytes:
    """Return the text with another escape, which must be as long, for each escape of half a character."""
    changed: bytearray | None = None
    for match in re.finditer(SURROGATE, text):
        if match["lone"]:
            changed = bytearray(text) if changed is None else changed
            changed[match.start() : match.end()] = escape
    return text if changed is None else bytes(changed)


def _repair_number(match: re.Match[str]) -> str:
    token = match[0]
    if token[0] == '"':
        return token
    if token[-1] in "Ny":
        return "null"
    return f'"{token}"' if abs(float(token)) == math.inf else token


def _malformed(reason: str, line: bytes) -> Malformed:
    return Malformed(reason, len(line), _sha256(line).hexdigest(), _head(line))


def _head(line: bytes) -> str:
    return line[:HEAD].decode(errors="replace")


def _sha256(data: bytes | bytearray) -> Any:
    import hashlib  # it loads OpenSSL, which most keepers never need

    return hashlib.sha256(data)
