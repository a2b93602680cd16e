"""The dialect of Anthropic Messages, streamed, for the stand-in."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import Any

MODEL = "stand-in"
QUESTION = {
    "questions": [
        {
            "question": "Which colour shall the button have?",
            "header": "Colour",
            "multiSelect": False,
            "options": [
                {"label": "Blue", "description": "as the logo"},
                {"label": "Red", "description": "as a warning"},
            ],
        }
    ]
}


def read_messages(body: dict[str, Any]) -> tuple[list[list[str]], dict[str, dict[str, Any]], int]:
    """Return the texts of each message of the user, the tools, and how many results follow the last text."""
    tools = {tool["name"]: tool.get("input_schema", {}) for tool in body.get("tools") or [] if "name" in tool}
    said: list[list[str]] = []
    results = 0
    for message in body["messages"]:
        if message["role"] != "user":
            continue
        content = message["content"]
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        texts = [block["text"] for block in blocks if block["type"] == "text"]
        own = [text for text in texts if not text.lstrip().startswith("<")]
        if own:
            said.append(own)
            results = 0
        else:
            results += sum(block["type"] == "tool_result" for block in blocks)
    return said, tools, results


def stream_text(words: Iterator[str]) -> Iterator[dict[str, Any]]:
    """Yield the events of an answer in words; an empty one is a pause."""
    deltas = ({"type": "text_delta", "text": word} if word else None for word in words)
    return _stream({"type": "text", "text": ""}, deltas, "end_turn")


def stream_call(tool: str, arguments: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the events of an answer that calls a tool."""
    block = {"type": "tool_use", "id": f"toolu_{time.monotonic_ns()}", "name": tool, "input": {}}
    delta = {"type": "input_json_delta", "partial_json": json.dumps(arguments)}
    return _stream(block, iter([delta]), "tool_use")


def as_message(words: str) -> dict[str, Any]:
    """Return a whole answer, for a client that did not ask for a stream."""
    return {**_message(), "content": [{"type": "text", "text": words}], "stop_reason": "end_turn"}


def _stream(
    block: dict[str, Any], deltas: Iterator[dict[str, Any] | None], reason: str
) -> Iterator[dict[str, Any]]:
    yield {"type": "message_start", "message": _message()}
    yield {"type": "content_block_start", "index": 0, "content_block": block}
    for delta in deltas:
        yield {"type": "content_block_delta", "index": 0, "delta": delta} if delta else {}
    yield {"type": "content_block_stop", "index": 0}
    end = {"stop_reason": reason, "stop_sequence": None}
    yield {"type": "message_delta", "delta": end, "usage": {"output_tokens": 5}}
    yield {"type": "message_stop"}


def _message() -> dict[str, Any]:
    return {
        "id": f"msg_{time.monotonic_ns()}",
        "type": "message",
        "role": "assistant",
        "model": MODEL,
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": {"input_tokens": 7, "output_tokens": 1},
    }
