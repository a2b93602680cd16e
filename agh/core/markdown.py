"""A transcript as Markdown, and as plain text. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import orjson

from agh.core.transcript import Message

_RESULT_PARTS = ("error", "stdout", "stderr", "content")


def markdown(messages: Sequence[Message]) -> str:
    return "\n\n".join(_markdown(message) for message in messages) + ("\n" if messages else "")


def plain(messages: Sequence[Message]) -> str:
    """One block per message, each line of speech prefixed with who spoke."""
    return "\n".join(_plain(message) for message in messages) + ("\n" if messages else "")


def result_text(result: Any) -> str:
    """What a tool said, as text: its error, its output, its content; its raw output when that is all."""
    if not isinstance(result, dict):
        return "" if result is None else str(result)
    parts = [result[key] for key in _RESULT_PARTS if result.get(key) not in (None, "")]
    if not parts and result.get("raw_output") is not None:
        parts = [result["raw_output"]]
    texts = [part if isinstance(part, str) else orjson.dumps(part).decode() for part in parts]
    return "\n".join(dict.fromkeys(texts))


def _markdown(message: Message) -> str:
    role = message["role"]
    if role == "user":
        return f"## User\n\n{message['content']}"
    if role == "assistant":
        parts = [f"## {_one_line(message.get('agent_id') or 'Assistant')}"]
        if message.get("thinking"):
            parts.append("\n".join(f"> {line}" for line in message["thinking"].splitlines()))
        if message["content"]:
            parts.append(message["content"])
        return "\n\n".join(parts)
    if role == "tool_call":
        given = message.get("tool_input")
        body = (
            f"\n\n{_fenced(orjson.dumps(given, option=orjson.OPT_INDENT_2).decode(), 'json')}"
            if given
            else ""
        )
        return f"### Tool call: {_tool(message)}{body}"
    if role == "tool_result":
        said = result_text(message.get("tool_result"))
        return f"### Tool result: {_tool(message)} ({_outcome(message)})" + (
            f"\n\n{_fenced(said)}" if said else ""
        )
    return f"> **{message.get('kind')}**: {message.get('summary')}"


def _plain(message: Message) -> str:
    role = message["role"]
    if role == "user":
        return _prefixed("user", message["content"])
    if role == "assistant":
        thinking = [_prefixed("thinking", message["thinking"])] if message.get("thinking") else []
        who = _one_line(message.get("agent_id") or "assistant")
        return "\n".join([*thinking, *([_prefixed(who, message["content"])] if message["content"] else [])])
    if role == "tool_call":
        return f"tool: {_tool(message)}"
    if role == "tool_result":
        said = result_text(message.get("tool_result"))
        return f"tool: {_tool(message)} {_outcome(message)}" + (f"\n{_indented(said)}" if said else "")
    return f"note: {message.get('kind')}: {_one_line(message.get('summary'))}"


def _tool(message: Message) -> str:
    name, title = message.get("tool_name"), message.get("title")
    words = [_one_line(word) for word in (name, title) if word]
    return ": ".join(dict.fromkeys(words)) or _one_line(message["tool_call_id"])


def _one_line(text: object) -> str:
    return " ".join(str(text).split())


def _outcome(message: Message) -> str:
    return str(message.get("outcome") or ("failed" if message.get("tool_error") else "ok"))


def _fenced(text: str, language: str = "") -> str:
    fence = "```"
    while fence in text:
        fence += "`"
    return f"{fence}{language}\n{text}\n{fence}"


def _prefixed(who: str, text: str) -> str:
    first, *rest = text.split("\n")
    return "\n".join([f"{who}: {first}", *_lines(rest)])


def _indented(text: str) -> str:
    return "\n".join(_lines(text.split("\n")))


def _lines(lines: Iterable[str]) -> list[str]:
    return [f"  {line}" if line else "" for line in lines]
