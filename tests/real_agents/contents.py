"""The dialect of Gemini's generateContent, streamed, for the stand-in."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

_USAGE = {"promptTokenCount": 7, "candidatesTokenCount": 5, "totalTokenCount": 12}


def read_contents(body: dict[str, Any]) -> tuple[list[list[str]], dict[str, dict[str, Any]], int]:
    """Return the texts of each message of the user, the tools, and how many results follow the last text."""
    tools = {
        function["name"]: function.get("parametersJsonSchema") or _lower(function.get("parameters", {}))
        for tool in body.get("tools") or []
        for function in tool.get("functionDeclarations") or []
    }
    messages: list[list[str]] = []
    results = 0
    for content in body["contents"]:
        if content.get("role", "user") != "user":
            continue
        parts = content["parts"]
        texts = [part["text"] for part in parts if part.get("text")]
        own = [text for text in texts if not text.lstrip().startswith("<")]
        if own and not any("functionResponse" in part for part in parts):
            messages.append(own)
            results = 0
        results += sum("functionResponse" in part for part in parts)
    return messages, tools, results


def stream_text(words: Iterator[str]) -> Iterator[dict[str, Any]]:
    """Yield the events of an answer in words; an empty one is a pause."""
    for word in words:
        yield _event({"text": word}) if word else {}
    yield {**_event({"text": ""}, "STOP"), "usageMetadata": _USAGE}


def stream_call(tool: str, arguments: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the events of an answer that calls a tool."""
    yield {
        **_event({"functionCall": {"name": tool, "args": arguments}}, "STOP"),
        "usageMetadata": _USAGE,
    }


def as_answer(words: str) -> dict[str, Any]:
    """Return a whole answer, for a client that did not ask for a stream."""
    return {**_event({"text": words}, "STOP"), "usageMetadata": _USAGE}


def _event(part: dict[str, Any], reason: str | None = None) -> dict[str, Any]:
    candidate: dict[str, Any] = {"index": 0, "content": {"role": "model", "parts": [part]}}
    return {"candidates": [{**candidate, **({"finishReason": reason} if reason else {})}]}


def _lower(schema: dict[str, Any]) -> dict[str, Any]:
    """Return a schema with the type names of JSON schema, which Gemini writes in capitals."""
    result = {key: _lower(value) if isinstance(value, dict) else value for key, value in schema.items()}
    if isinstance(result.get("type"), str):
        result["type"] = result["type"].lower()
    return result
