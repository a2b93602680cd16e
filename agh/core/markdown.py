"""A transcript as Markdown, and as plain text. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import orjson

from agh.core.transcript import Message

_LEAST_FENCE = 3
_RESULT_PARTS = ("error", "stdout", "stderr", "content")


def markdown(messages: Sequence[Message]) -> str:
    """Format each message as a section of Markdown."""
    return "\n\n".join(_format_markdown(message) for message in messages) + ("\n" if messages else "")


def plain(messages: Sequence[Message]) -> str:
    """Format each message as a block of plain text that begins with the speaker."""
    return "\n".join(_format_plain(message) for message in messages) + ("\n" if messages else "")


def result_text(result: Any) -> str:
    """Return a tool's result as text: its error, output and content, or its raw output if it has no other."""
    if not isinstance(result, dict):
        return "" if result is None else str(result)
    parts = [result[key] for key in _RESULT_PARTS if result.get(key) not in (None, "")]
    if not parts and result.get("raw_output") is not None:
        parts = [result["raw_output"]]
    texts = [part if isinstance(part, str) else orjson.dumps(part).decode() for part in parts]
    return "\n".join(dict.fromkeys(texts))


def last_code(text: str) -> str | None:
    """Return the last fenced piece of code in a text; None if it has none."""
    code, fence, lines = None, "", list[str]()
    for line in text.splitlines():
        words = line.strip()
        mark = words[: len(words) - len(words.lstrip(words[:1]))] if words[:1] in ("`", "~") else ""
        if not fence and len(mark) >= _LEAST_FENCE and "`" not in words[len(mark) :]:
            fence, lines = mark, []
        elif fence and mark.startswith(fence) and words == mark:
            code, fence = "".join(f"{code_line}\n" for code_line in lines), ""
        else:
            lines.append(line)
    return code


def _format_markdown(message: Message) -> str:
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
        tool_input = message.get("tool_input")
        body = (
            f"\n\n{_fence(orjson.dumps(tool_input, option=orjson.OPT_INDENT_2).decode(), 'json')}"
            if tool_input
            else ""
        )
        return f"### Tool call: {_label_tool(message)}{body}"
    if role == "tool_result":
        output = result_text(message.get("tool_result"))
        return f"### Tool result: {_label_tool(message)} ({_outcome(message)})" + (
            f"\n\n{_fence(output)}" if output else ""
        )
    return f"> **{message.get('kind')}**: {message.get('summary')}"


def _format_plain(message: Message) -> str:
    role = message["role"]
    if role == "user":
        return _prefix("user", message["content"])
    if role == "assistant":
        thinking = [_prefix("thinking", message["thinking"])] if message.get("thinking") else []
        speaker = _one_line(message.get("agent_id") or "assistant")
        return "\n".join([*thinking, *([_prefix(speaker, message["content"])] if message["content"] else [])])
    if role == "tool_call":
        return f"tool: {_label_tool(message)}"
    if role == "tool_result":
        output = result_text(message.get("tool_result"))
        return f"tool: {_label_tool(message)} {_outcome(message)}" + (
            f"\n{_indent(output)}" if output else ""
        )
    return f"note: {message.get('kind')}: {_one_line(message.get('summary'))}"


def _label_tool(message: Message) -> str:
    name, title = message.get("tool_name"), message.get("title")
    words = [_one_line(word) for word in (name, title) if word]
    return ": ".join(dict.fromkeys(words)) or _one_line(message["tool_call_id"])


def _one_line(text: object) -> str:
    return " ".join(str(text).split())


def _outcome(message: Message) -> str:
    return str(message.get("outcome") or ("failed" if message.get("tool_error") else "ok"))


def _fence(text: str, language: str = "") -> str:
    fence = "```"
    while fence in text:
        fence += "`"
    return f"{fence}{language}\n{text}\n{fence}"


def _prefix(speaker: str, text: str) -> str:
    first, *rest = text.split("\n")
    return "\n".join([f"{speaker}: {first}", *_indent_lines(rest)])


def _indent(text: str) -> str:
    return "\n".join(_indent_lines(text.split("\n")))


def _indent_lines(lines: Iterable[str]) -> list[str]:
    return [f"  {line}" if line else "" for line in lines]
