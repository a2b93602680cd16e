"""Bytes from an agent to JSON-RPC frames, and messages to bytes.

Promises: no bytes raise. Time is linear and memory bounded, however long a line is and in whatever pieces it
comes. `raw` is the line as it came, and JSON to both orjson and SQLite. Where the line is not, the least is
changed and `sanitized` says so: bad UTF-8 and lone surrogates become U+FFFD, NaN and Infinity become null, a
number beyond every float becomes a string, a byte order mark goes. What cannot be saved so is `Malformed`.

An integer beyond 64 bits stays whole in `raw`, while its parsed value is the nearest float. Of equal keys the
last one holds. A missing `"jsonrpc"`, `"params":null` and `"method":null` are forgiven: they do occur.
It never judges methods or their parameters, and the reason in a `Malformed` never quotes the agent.
"""

import json
import math
import re
from contextlib import suppress
from typing import Any, NamedTuple

import orjson

MAX_LINE = 32 << 20
MAX_DEPTH = 200  # orjson writes 254 levels at most, and what is stored gets wrapped
MAX_VALUES = 500_000  # an empty list is 3 bytes on the wire and 80 in memory
MAX_NUMBER_REPAIR = 1 << 20  # bytes; this repair looks at every token
HEAD = 200  # bytes
INTERNAL_ERROR = -32603

Id = int | str | None
Params = dict[str, Any] | list[Any] | None


class Request(NamedTuple):
    id: Id
    method: str
    params: Params
    raw: str
    sanitized: bool = False


class Response(NamedTuple):
    id: Id
    result: Any
    error: dict[str, Any] | None  # always with an int `code` and a str `message`
    raw: str
    sanitized: bool = False


class Notification(NamedTuple):
    method: str
    params: Params
    raw: str
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
    if len(line) > 2 * MAX_DEPTH and (reason := _outgrown(line)):
        return _malformed(reason, line)
    sanitized = False
    try:
        message = orjson.loads(line)
        raw = line.decode()
    except ValueError:
        repaired = _repair(line.decode(errors="replace")) if re.search(REPAIRABLE, line) else None
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


def encode_error(id: Id, code: int, message: str, data: Any = None) -> bytes:
    error = {"code": code, "message": message} | _unless_none("data", data)
    return _encode({"jsonrpc": "2.0", "id": id, "error": error})


def _unless_none(key: str, value: Any) -> dict[str, Any]:
    return {} if value is None else {key: value}


def _encode(message: dict[str, Any]) -> bytes:
    try:
        return orjson.dumps(message, option=orjson.OPT_APPEND_NEWLINE)
    except TypeError:  # a lone surrogate (a file name from argv may hold one), or an integer beyond 64 bits
        text = json.dumps(message, separators=(",", ":"))
        repaired = _repair(text)
        return (repaired[0] if repaired else text).encode() + b"\n"


def _normal_error(error: Any) -> dict[str, Any]:
    match error:
        case {"code": int(code), "message": str()} if code is not True and code is not False:
            return error  # type: ignore[no-any-return]
        case str(message) | {"message": str(message)}:
            return {"code": INTERNAL_ERROR, "message": message, "data": error}
    return {"code": INTERNAL_ERROR, "message": "an error of no known form", "data": error}


def _outgrown(line: bytes) -> str | None:
    """Why the line must not be parsed, judged by what stands outside its strings."""
    opened = line.count(b"[") + line.count(b"{")
    if opened <= MAX_DEPTH and (len(line) <= MAX_VALUES or opened + line.count(b",") <= MAX_VALUES):
        return None
    bare = line.replace(b"\\\\", b"").replace(b'\\"', b"")
    if bare.count(b'"') > 4 * MAX_VALUES:
        return "too many values"
    structure = b"".join(bare.split(b'"')[::2])
    if structure.count(b"[") + structure.count(b"{") + structure.count(b",") > MAX_VALUES:
        return "too many values"
    depth = 0
    for byte in structure.translate(None, NOT_BRACKETS):
        depth += 1 if byte in b"[{" else -1
        if depth > MAX_DEPTH:
            return "nested too deeply"
        if depth < 0:
            return None  # not JSON, as the parser will find
    return None


NOT_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))
# Whatever a repair could change has one of these in it; what is mere chatter is not tried.
REPAIRABLE = rb"[0-9\x80-\xff]|\\u|NaN|Infinity"
# Escapes are taken one after the other, or an escaped backslash would pass for the start of one. All but
# surrogates go by in a run.
SURROGATE = (
    r"\\(?:[^u][^\\]*+(?:\\[^u][^\\]*+)*+|u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"
    r"|(?P<lone>u[dD][89a-fA-F][0-9a-fA-F]{2}))"
)
# Possessive: a string without an end costs one pass, and not one for each of its quotes.
STRING_OR_NUMBER = (
    r'(?s)"(?:[^"\\]++|\\.)*+"?|-?Infinity|NaN|-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?'
)


def _repair(text: str) -> tuple[str, Any] | None:
    """The text with the least changed that makes it JSON, and its value."""
    text = text.removeprefix("\ufeff")
    text = re.sub(SURROGATE, lambda match: r"\ufffd" if match["lone"] else match[0], text)
    with suppress(ValueError):
        return text, orjson.loads(text)
    if len(text) <= MAX_NUMBER_REPAIR:
        text = re.sub(STRING_OR_NUMBER, _repair_number, text)
        with suppress(ValueError):
            return text, orjson.loads(text)
    return None


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
