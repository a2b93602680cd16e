"""A turn as the AI SDK's UI message stream (v1), for its stock clients. Does no I/O.

Text and thoughts become text and reasoning parts, tools become dynamic tools that the provider runs, and
events without a matching part (plans, permissions, questions, markers, usage, warnings) become `data-…`
parts. Uses only members that every version of the protocol has.
"""

from __future__ import annotations

from typing import Any

import orjson

from agh.core.events import MARKER_CREATED, Row

HEADERS = {"x-vercel-ai-ui-message-stream": "v1"}
DONE = b"data: [DONE]\n\n"
Part = dict[str, Any]

# The data part of an event: its type, the members of the event's content to copy, and its id, if a later part
# replaces it. The id of a permission or a question is the member with that name.
_DATA_PARTS = {
    "plan": ("data-plan", ("raw",), "plan"),
    "usage": ("data-usage", ("usage",), "usage"),
    "permission": (
        "data-permission",
        ("request_id", "action", "resource", "title", "tool_call_id", "decision", "decided_by"),
        "request_id",
    ),
    "question": (
        "data-question",
        (
            "request_id",
            "mode",
            "message",
            "fields",
            "url",
            "tool_call_id",
            "decision",
            "decided_by",
            "answer",
        ),
        "request_id",
    ),
    "runtime_warning": ("data-warning", ("text",), None),
    MARKER_CREATED: ("data-marker", ("kind", "severity", "summary", "occurred_at"), None),
}


def encode_parts(parts: list[Part]) -> bytes:
    return b"".join(b"data: " + orjson.dumps(part) + b"\n\n" for part in parts)


class UIStream:
    """A converter that takes the rows of one turn, in order, and returns the parts for each."""

    def __init__(self, session_id: str, turn_id: str) -> None:
        self.ended = False
        self._metadata = {"session_id": session_id, "turn_id": turn_id}
        self._open_text: tuple[str, str, Any] | None = None  # the part's type, its id, its message's id
        self._sent_tools: dict[str, tuple[str, Any]] = {}  # the name and the input that were sent of each

    def start(self) -> list[Part]:
        start = {"type": "start", "messageId": self._metadata["turn_id"], "messageMetadata": self._metadata}
        return [start, {"type": "start-step"}]

    def fail(self, text: str) -> list[Part]:
        """Return the last parts of a turn that failed."""
        self.ended = True
        return [*self._close_text(), {"type": "error", "errorText": text}]

    def convert(self, row: Row) -> list[Part]:
        """Return the parts for a row, which may be none."""
        content = row.parsed()
        if row.type in ("agent_message", "thought"):
            return self._convert_text("text" if row.type == "agent_message" else "reasoning", row, content)
        if row.type in ("tool_call", "tool_result"):
            return [*self._close_text(), *self._convert_tool(row, content)]
        if row.type in _DATA_PARTS:
            part_type, keys, part_id = _DATA_PARTS[row.type]
            data = {key: content[key] for key in keys if content.get(key) is not None}
            part = {"type": part_type, "data": data}
            if part_id is not None:
                part["id"] = str(content.get(part_id)) if part_id == "request_id" else part_id
            return [part]
        if row.type == "error":
            return self.fail(str(content.get("error") or content.get("stop_reason") or "the turn failed"))
        if row.type == "done":
            return self._finish(content)
        return []

    def _convert_text(self, part_type: str, row: Row, content: dict[str, Any]) -> list[Part]:
        text = content.get("text")
        if not isinstance(text, str) or not text:
            return []
        parts: list[Part] = []
        message_id = content.get("message_id")
        if self._open_text is None or self._open_text[0] != part_type or self._open_text[2] != message_id:
            parts = [*self._close_text(), {"type": f"{part_type}-start", "id": row.id}]
            self._open_text = (part_type, row.id, message_id)
        return [*parts, {"type": f"{part_type}-delta", "id": self._open_text[1], "delta": text}]

    def _close_text(self) -> list[Part]:
        text, self._open_text = self._open_text, None
        return [{"type": f"{text[0]}-end", "id": text[1]}] if text else []

    def _convert_tool(self, row: Row, content: dict[str, Any]) -> list[Part]:
        call_id = str(content.get("tool_call_id") or row.id)
        common = {"toolCallId": call_id, "providerExecuted": True, "dynamic": True}
        parts: list[Part] = []
        name, tool_input = self._sent_tools.get(call_id, ("", None))
        name = name or str(content.get("tool_name") or content.get("title") or "tool")
        if content.get("tool_input") is not None:
            tool_input = content["tool_input"]
        if self._sent_tools.get(call_id) != (name, tool_input):
            self._sent_tools[call_id] = (name, tool_input)
            parts.append({"type": "tool-input-available", **common, "toolName": name, "input": tool_input})
        if row.type == "tool_result":
            output = content.get("tool_result")
            if content.get("tool_error"):
                error = output.get("error") if isinstance(output, dict) else None
                parts.append({"type": "tool-output-error", **common, "errorText": str(error or "failed")})
            else:
                parts.append({"type": "tool-output-available", **common, "output": output})
        return parts

    def _finish(self, content: dict[str, Any]) -> list[Part]:
        self.ended = True
        reason = content.get("stop_reason")
        parts = [*self._close_text(), {"type": "finish-step"}]
        if reason == "cancelled":
            return [*parts, {"type": "abort"}]
        metadata = {**self._metadata, "stop_reason": reason, "usage": content.get("usage")}
        return [*parts, {"type": "finish", "messageMetadata": metadata}]
