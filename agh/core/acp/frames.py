"""Parsing an agent's bytes into JSON-RPC frames, and encoding messages as bytes.

Promises: no input raises. Time is linear and memory bounded, however long a line is and however it is split
into pieces. `raw` is the line as received, and valid JSON to both orjson and SQLite. An invalid line is
repaired by `json_text` with as few changes as possible, and `sanitized` is then true. A line that cannot be
repaired is `Malformed`.

An integer beyond 64 bits stays exact in `raw`, while its parsed value is the nearest float. The last of equal
keys wins. A missing `"jsonrpc"`, `"params":null` and `"method":null` are tolerated, because agents send them.
Never judges methods or their parameters, and never quotes the agent in the reason of a `Malformed`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

import orjson

from agh.core.acp.json_text import MAX_DEPTH, REPAIRABLE, find_excess, repair
from agh.core.acp.long_text import LONG, loads
from agh.core.named_tuple import NamedTuple

if TYPE_CHECKING:
    from agh.core.acp.chunks import Chunks
    from agh.core.redaction.redact import Redactor

MAX_LINE = 32 << 20
HEAD = 200  # bytes
MAX_ERROR_TEXT = 4_000  # characters, of the message and of the data
INTERNAL_ERROR = -32603
# The keys below which agents send files and output. Only there a very long string is a LongText.
BULK = frozenset(("content", "text", "oldText", "newText", "rawOutput"))

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
    tail: str = ""  # only of a line beyond the cap


SingleFrame = Request | Response | Notification | Malformed
Frame: TypeAlias = "SingleFrame | Chunks"


class Splitter:
    """Splits a stream into lines. Of a line beyond the cap it keeps only its length, hash and ends.

    `parse_lines` parses whole lines.
    """

    def __init__(self, max_line: int = MAX_LINE) -> None:
        self.max_line = max_line
        self.parse_lines: Callable[[list[bytes]], list[Frame]] = parse_lines
        self._start_line()

    def _start_line(self) -> None:
        self._partial = bytearray()
        self._length = 0
        self._sha256: Any = None  # only once the line is beyond the cap
        self._tail = b""

    def feed(self, data: bytes) -> list[Frame]:
        """Take the next bytes and return the frames of the lines that they complete."""
        frames: list[Frame] = []
        *lines, rest = data.split(b"\n")
        if lines and self._length:
            self._append(lines.pop(0))
            frames += self.close()
        if len(data) <= self.max_line:
            frames += self.parse_lines(lines)
        else:
            for line in lines:
                self._append(line)
                frames += self.close()
        if rest:
            self._append(rest)
        return frames

    def close(self) -> list[Frame]:
        """End the stream, or the incomplete line, and return its frame if it has one."""
        line, length, sha256 = bytes(self._partial), self._length, self._sha256
        tail = self._tail.decode(errors="replace")
        self._start_line()
        if sha256:
            reason = f"longer than {self.max_line} bytes"
            return [Malformed(reason, length, sha256.hexdigest(), _decode_head(line), tail)]
        return self.parse_lines([line])

    def _append(self, piece: bytes) -> None:
        self._length += len(piece)
        if self._sha256:
            self._sha256.update(piece)
            self._tail = (self._tail + piece[-HEAD:])[-HEAD:]
            self._partial += piece[: max(0, HEAD - len(self._partial))]
            return
        self._partial += piece
        if self._length > self.max_line:
            self._sha256 = _sha256(self._partial)
            self._tail = bytes(self._partial[-HEAD:])
            self._partial = self._partial[:HEAD]


def parse_lines(lines: list[bytes]) -> list[Frame]:
    """Parse lines into frames; a blank one has none."""
    return [parse(line) for line in lines if line and not line.isspace()]


def parse(line: bytes) -> SingleFrame:
    """Parse one line, repairing it if necessary."""
    if len(line) > 2 * MAX_DEPTH and (reason := find_excess(line)):
        return _reject(reason, line)
    sanitized = False
    try:
        message, raw = loads(line, BULK) if len(line) > LONG else orjson.loads(line), line
    except ValueError:
        repaired = repair(line, BULK) if re.search(REPAIRABLE, line) else None
        if repaired is None:
            return _reject("not JSON", line)
        raw, message = repaired
        sanitized = True
    if type(message) is not dict:
        return _reject("not a JSON object", line)
    id = message.get("id")
    if id is not None and type(id) is not int and type(id) is not str:
        return _reject("its id must be a 64-bit integer, a string or null", line)
    method = message.get("method")
    if method is not None:
        if type(method) is not str:
            return _reject("its method is not a string", line)
        params = message.get("params")
        if params is not None and type(params) is not dict and type(params) is not list:
            return _reject("its params are neither an object nor an array", line)
        if "id" in message:
            return Request(id, method, params, raw, sanitized)
        return Notification(method, params, raw, sanitized)
    if "id" not in message:
        return _reject("it has neither a method nor an id", line)
    error = message.get("error")
    if error is None and "result" in message:
        return Response(id, message["result"], None, raw, sanitized)
    if "error" in message:
        return Response(id, None, _normalise_error(error), raw, sanitized)
    return _reject("it has no method, result or error", line)


def encode_request(id: int | str, method: str, params: Params = None) -> bytes:
    return _encode({"jsonrpc": "2.0", "id": id, "method": method} | _optional_field("params", params))


def encode_notification(method: str, params: Params = None) -> bytes:
    return _encode({"jsonrpc": "2.0", "method": method} | _optional_field("params", params))


def encode_result(id: Id, result: Any) -> bytes:
    return _encode({"jsonrpc": "2.0", "id": id, "result": result})


def redacted_error(error: dict[str, Any], redactor: Redactor) -> dict[str, Any]:
    """Return a JSON-RPC error that is safe to show and store: of limited size, and without secrets."""
    clean = {
        "code": error.get("code"),
        "message": redactor.beginning(str(error.get("message")), MAX_ERROR_TEXT),
    }
    data = error.get("data")
    if data is not None:
        text = orjson.dumps(data)
        is_short = len(text) <= MAX_ERROR_TEXT
        clean["data"] = redactor.json(data) if is_short else redactor.beginning(text.decode(), MAX_ERROR_TEXT)
    return clean


def encode_error(id: Id, code: int, message: str, data: Any = None) -> bytes:
    error = {"code": code, "message": message} | _optional_field("data", data)
    return _encode({"jsonrpc": "2.0", "id": id, "error": error})


def encode_answer(id: Id, answer: Mapping[str, Any]) -> bytes:
    return _encode({"jsonrpc": "2.0", "id": id, **answer})


def only_dicts(value: Any) -> list[dict[str, Any]]:
    """Return the mappings in a list; nothing if the value is not a list."""
    return [entry for entry in value if isinstance(entry, dict)] if isinstance(value, list) else []


def _optional_field(key: str, value: Any) -> dict[str, Any]:
    return {} if value is None else {key: value}


def _encode(message: dict[str, Any]) -> bytes:
    try:
        return orjson.dumps(message, option=orjson.OPT_APPEND_NEWLINE)
    except TypeError:  # a lone surrogate (possible in a file name from argv), or an integer beyond 64 bits
        text = json.dumps(message, separators=(",", ":")).encode()
        repaired = repair(text)
        return (repaired[0] if repaired else text) + b"\n"


def _normalise_error(error: Any) -> dict[str, Any]:
    match error:
        case {"code": int(code), "message": str()} if code is not True and code is not False:
            return error  # type: ignore[no-any-return]
        case str(message) | {"message": str(message)}:
            return {"code": INTERNAL_ERROR, "message": message, "data": error}
    return {"code": INTERNAL_ERROR, "message": "an error in an unknown format", "data": error}


def _reject(reason: str, line: bytes) -> Malformed:
    return Malformed(reason, len(line), _sha256(line).hexdigest(), _decode_head(line))


def _decode_head(line: bytes) -> str:
    return line[:HEAD].decode(errors="replace")


def _sha256(data: bytes | bytearray) -> Any:
    import hashlib  # here, because it loads OpenSSL and most keepers never need it

    return hashlib.sha256(data)
