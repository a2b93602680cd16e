"""Messages that an agent could send, made from the schema of the protocol, and then often spoiled.

`Maker` makes instances of a schema; `spoil` changes something in them. Commands are words that no shell
knows, and files to write are in the workspace, so that whatever is allowed does no harm.
"""

from __future__ import annotations

import random
from typing import Any

from tests.support.sdk import load_model

REQUESTS = {
    "session/request_permission": "RequestPermissionRequest",
    "fs/read_text_file": "ReadTextFileRequest",
    "fs/write_text_file": "WriteTextFileRequest",
    "terminal/create": "CreateTerminalRequest",
    "terminal/output": "TerminalOutputRequest",
    "terminal/wait_for_exit": "WaitForTerminalExitRequest",
    "terminal/kill": "KillTerminalRequest",
    "terminal/release": "ReleaseTerminalRequest",
}
ANSWERS = {
    "initialize": "InitializeResponse",
    "session/new": "NewSessionResponse",
    "session/load": "LoadSessionResponse",
    "session/resume": "ResumeSessionResponse",
    "session/prompt": "PromptResponse",
}
WEIGHTS = {"session/update": 60, "terminal/create": 1}  # others: 5; a terminal takes a process
DEEPEST = 6
ODD = (
    None, True, False, 0, -1, 1 << 63, -(1 << 63) - 1, 10**40, 1.5e308, -0.0, "", "\0", "\ud800", "é😀",
    "x" * 5000, "../..", "/etc/passwd", "/proc/self/" + "root/etc/passwd", "file:///etc/passwd", [], {},
    [[]], {"": {}}, [None] * 50, {"type": "text"}, {"_meta": {"a": [1]}}, "\x1b[2J\x1b]0;x\x07", "9" * 400,
)  # fmt: skip

ODD_KEYS = ("", "\0", "type", "text", "sessionId", "x" * 300)


class Maker:
    """Makes random instances of the protocol's schema."""

    def __init__(self, chance: random.Random, workspace: str, session_id: str = "fuzz") -> None:
        self.chance, self.workspace, self.session_id = chance, workspace, session_id
        self._schemas: dict[str, dict[str, Any]] = {}
        self._number = 0

    def frame(self) -> dict[str, Any]:
        """Return the next message of a turn."""
        methods = ["session/update", *REQUESTS, "$/cancel_request", "elicitation/create", "_vendor/thing"]
        weights = [WEIGHTS.get(method, 5) for method in methods]
        (method,) = self.chance.choices(methods, weights)
        frame: dict[str, Any] = {"jsonrpc": "2.0", "method": method}
        if method == "session/update":
            frame["params"] = self.instance("SessionNotification")
        elif method in REQUESTS:
            frame["params"] = self.instance(REQUESTS[method])
        else:
            frame["params"] = {"requestId": self.chance.choice(["1", 1, None])}
        if method in REQUESTS or self.chance.random() < 0.03:
            self._number += 1
            frame["id"] = self._number
        if self.chance.random() < 0.6:
            frame = self.spoil(frame)
        return frame

    def answer(self, method: str) -> Any:
        """Return the result of a request, spoiled or not."""
        model = ANSWERS.get(method)
        result: Any = self.instance(model) if model else {}
        return self.spoil(result) if self.chance.random() < 0.7 else result

    def instance(self, model: str) -> Any:
        """Return an instance of a model of the schema."""
        if model not in self._schemas:
            self._schemas[model] = load_model(model).model_json_schema(by_alias=True)
        root = self._schemas[model]
        return self._make(root, root.get("$defs", {}), "", 0)

    def spoil(self, value: Any) -> Any:
        """Return the value with something in it replaced, left out, added or repeated."""
        if not isinstance(value, dict | list) or not value or self.chance.random() < 0.15:
            return self.chance.choice(ODD)
        if isinstance(value, list):
            spoiled = list(value)
            index = self.chance.randrange(len(spoiled))
            spoiled[index] = self.spoil(spoiled[index])
            return spoiled * self.chance.choice([1, 1, 3])
        key = self.chance.choice(list(value))
        if key in ("jsonrpc", "id") and self.chance.random() < 0.8:
            return value
        changed = dict(value)
        kind = self.chance.random()
        if kind < 0.15:
            del changed[key]
        elif kind < 0.25:
            changed[self.chance.choice(["", "\0", "type", "text", "sessionId", "x" * 300])] = (
                self.chance.choice(ODD)
            )
        elif key != "command":
            changed[key] = self.spoil(changed[key])
        return changed

    def _make(self, part: dict[str, Any], definitions: dict[str, Any], name: str, depth: int) -> Any:
        if "$ref" in part:
            return self._make(definitions[part["$ref"].rpartition("/")[2]], definitions, name, depth)
        for key in ("oneOf", "anyOf", "allOf"):
            if key in part:
                made = self._make(self.chance.choice(part[key]), definitions, name, depth)
                if isinstance(made, dict) and "properties" in part:
                    made |= self._members(part, definitions, depth)
                return made
        if "const" in part or "enum" in part:
            return part["const"] if "const" in part else self.chance.choice(part["enum"])
        kind = part.get("type")
        if kind == "object" or "properties" in part:
            return self._members(part, definitions, depth)
        if kind == "array":
            count = 0 if depth > DEEPEST else self.chance.randrange(3)
            return [self._make(part.get("items", {}), definitions, name, depth + 1) for _ in range(count)]
        if kind == "string":
            return self._text(name)
        if kind in ("integer", "number"):
            return self.chance.choice([0, 1, 2, 100, 65536])
        return {"boolean": self.chance.random() < 0.5}.get(str(kind))

    def _members(self, part: dict[str, Any], definitions: dict[str, Any], depth: int) -> dict[str, Any]:
        made = {}
        for name, member in part.get("properties", {}).items():
            if name in part.get("required", ()) or (depth <= DEEPEST and self.chance.random() < 0.4):
                made[name] = self._make(member, definitions, name, depth + 1)
        return made

    def _text(self, name: str) -> str:
        if name in ("path", "cwd", "uri"):
            names = ("a.txt", "b/c.txt", "missing", "dir", "../out.txt", "a.txt/below", "\0", "é")
            return f"{self.workspace}/{self.chance.choice(names)}"
        if name == "command":
            return self.chance.choice(["true", "false", "echo", "zzqx", "zz qx", ""])
        if name == "sessionId":
            return self.session_id
        if name in ("terminalId", "toolCallId", "optionId"):
            return f"{name}-{self.chance.randrange(5)}"
        return self.chance.choice(["", "a", "some text", "line\nline", "é😀", "0", "x" * 200])
