"""A turn as the AI SDK's UI message stream (v1), for its stock clients. Pure.

Text and thoughts become text and reasoning parts, tools are dynamic tools that the provider runs, and
what has no part of its own (plans, permission requests, markers, usage, warnings) is a `data-…` part.
Only members that every version of that protocol knows are used.
"""

from __future__ import annotations

from typing import Any

import orjson

from agh.core.events import MARKER_CREATED, Row

HEADERS = {"x-vercel-ai-ui-message-stream": "v1"}
DONE = b"data: [DONE]\n\n"
Part = dict[str, Any]

# What of an event's content goes into a data part, and under which id a later one replaces it: the value of
# a member, or a word.
_DATA = {
    "plan": ("data-plan", ("raw",), "plan"),
    "usage": ("data-usage", ("usage",), "usage"),
    "permission": (
        "data-permission",
        ("request_id", "action", "resource", "title", "tool_call_id", "decision", "decided_by"),
        "request_id",
    ),
    "runtime_warning": ("data-warning", ("text",), None),
    MARKER_CREATED: ("data-marker", ("kind", "severity", "summary", "occurred_at"), None),
}


def encode(parts: list[Part]) -> bytes:
    return b"".join(b"data: " + orjson.dumps(part) + b"\n\n" for part in parts)


class UIStream:
    """Takes the rows of one turn in order and gives the parts that they make."""

    def __init__(self, session_id: str, turn_id: str) -> None:
        self.over = False
        self._about = {"session_id": session_id, "turn_id": turn_id}
        self._open: tuple[str, str, Any] | None = None  # the kind of part, its id, the message it is of
        self._tools: dict[str, tuple[str, Any]] = {}  # what was told of each: its name and its input

    def start(self) -> list[Part]:
        head = {"type": "start", "messageId": self._about["turn_id"], "messageMetadata": self._about}
        return [head, {"type": "start-step"}]

    def fail(self, text: str) -> list[Part]:
        """The end of a turn that went wrong."""
        self.over = True
        return [*self._close(), {"type": "error", "errorText": text}]

    def feed(self, row: Row) -> list[Part]:
        content = row.parsed()
        if row.type in ("agent_message", "thought"):
            return self._text("text" if row.type == "agent_message" else "reasoning", row, content)
        if row.type in ("tool_call", "tool_result"):
            return [*self._close(), *self._tool(row, content)]
        if row.type in _DATA:
            kind, keys, known = _DATA[row.type]
            part = {"type": kind, "data": {key: content[key] for key in keys if content.get(key) is not None}}
            if known is not None:
                part["id"] = str(content.get(known)) if row.type == "permission" else known
            return [part]
        if row.type == "error":
            return self.fail(str(content.get("error") or content.get("stop_reason") or "the turn failed"))
        if row.type == "done":
            return self._done(content)
        return []

    def _text(self, kind: str, row: Row, content: dict[str, Any]) -> list[Part]:
        text = content.get("text")
        if not isinstance(text, str) or not text:
            return []
        parts: list[Part] = []
        message = content.get("message_id")
        if self._open is None or self._open[0] != kind or self._open[2] != message:
            parts = [*self._close(), {"type": f"{kind}-start", "id": row.id}]
            self._open = (kind, row.id, message)
        return [*parts, {"type": f"{kind}-delta", "id": self._open[1], "delta": text}]

    def _close(self) -> list[Part]:
        ended, self._open = self._open, None
        return [{"type": f"{ended[0]}-end", "id": ended[1]}] if ended else []

    def _tool(self, row: Row, content: dict[str, Any]) -> list[Part]:
        call = str(content.get("tool_call_id") or row.id)
        ours = {"toolCallId": call, "providerExecuted": True, "dynamic": True}
        parts: list[Part] = []
        name, given = self._tools.get(call, ("", None))
        name = name or str(content.get("tool_name") or content.get("title") or "tool")
        told = (name, given if content.get("tool_input") is None else content["tool_input"])
        if self._tools.get(call) != told:
            self._tools[call] = told
            parts.append({"type": "tool-input-available", **ours, "toolName": name, "input": told[1]})
        if row.type == "tool_result":
            output = content.get("tool_result")
            if content.get("tool_error"):
                error = output.get("error") if isinstance(output, dict) else None
                parts.append({"type": "tool-output-error", **ours, "errorText": str(error or "failed")})
            else:
                parts.append({"type": "tool-output-available", **ours, "output": output})
        return parts

    def _done(self, content: dict[str, Any]) -> list[Part]:
        self.over = True
        reason = content.get("stop_reason")
        parts = [*self._close(), {"type": "finish-step"}]
        if reason == "cancelled":
            return [*parts, {"type": "abort"}]
        about = {**self._about, "stop_reason": reason, "usage": content.get("usage")}
        return [*parts, {"type": "finish", "messageMetadata": about}]
