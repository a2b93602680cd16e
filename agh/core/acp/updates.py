"""Translating an agent's ACP `session/update` into the type and fields of an event. Pure.

Nothing is dropped: an unknown kind of update becomes a `system` event that keeps the update in `raw`.
"""

from __future__ import annotations

from typing import Any

import orjson

from agh.core.acp.long_text import LONG, join_texts, json_length
from agh.core.acp.members import member
from agh.core.acp.notes import MARKER_CREATED, compaction_marker, notice_marker

Fields = dict[str, Any]

_FINISHED = ("completed", "failed")
_RESULT_KEYS = ("stdout", "stderr", "error")
_MOST = 10**12  # tokens, or units of a currency; the sum over all turns still fits into 64 bits


def event_of(update: Fields) -> tuple[str, Fields]:
    """Return the event type of an update, and its content fields except `raw`."""
    kind = update.get("sessionUpdate")
    if kind in ("agent_message_chunk", "agent_thought_chunk"):
        return ("agent_message" if kind == "agent_message_chunk" else "thought"), _chunk_fields(update)
    if kind in ("tool_call", "tool_call_update"):
        return _tool_event(update)
    if kind == "plan":
        return "plan", {}
    if kind == "usage_update":
        return "usage", {"usage": context_usage(update)}
    note = notice_marker(update) if kind == "notice" else None
    note = compaction_marker(update) if kind == "compaction_update" else note
    if note is not None:
        return MARKER_CREATED, note
    return "system", {"title": _system_title(kind, update)}


def update_text(frame: bytes, update: Fields) -> bytes | memoryview:
    """Return the update's JSON text, exactly as in its frame; a long one is not copied."""
    if len(frame) <= LONG:
        line = frame.rstrip()
        start = line.find(b'"update":') + len(b'"update":')
        # The update is nearly always the last field of the params, which are the frame's last field.
        if _is_json_of(text := line[start:-2], update):
            return text
    params = member(frame, 0, "params")
    span = member(frame, params[0], "update") if params else None
    return memoryview(frame)[slice(*span)] if span else frame


def _is_json_of(text: bytes, update: Fields) -> bool:
    try:
        # Most agents format JSON as we do, and formatting is cheaper than parsing.
        return orjson.dumps(update) == text or bool(orjson.loads(text) == update)
    except orjson.JSONDecodeError:
        return False


def context_usage(update: Fields) -> Fields:
    """Return how full the context is and what the session has cost, with None for what is unknown."""
    cost = update.get("cost")
    cost = cost if isinstance(cost, dict) else {}
    return {
        "context_used": _number(update.get("used")),
        "context_size": _number(update.get("size")),
        "cost_amount": _number(cost.get("amount")),
        "cost_currency": cost.get("currency") if isinstance(cost.get("currency"), str) else None,
    }


def token_usage(usage: Any) -> Fields | None:
    """Return the token counts of a prompt's answer; None if the agent sent none."""
    if not isinstance(usage, dict):
        return None
    names = {
        "input_tokens": "inputTokens",
        "output_tokens": "outputTokens",
        "thought_tokens": "thoughtTokens",
        "cached_read_tokens": "cachedReadTokens",
        "cached_write_tokens": "cachedWriteTokens",
        "total_tokens": "totalTokens",
    }
    return {ours: _number(usage.get(theirs)) for ours, theirs in names.items()}


def request_usage(carrier: Fields) -> Fields | None:
    """Return the tokens of one model request, which some agents put into `_meta` of a chunk or an answer."""
    extra = carrier.get("_meta")
    return token_usage(extra.get("usage")) if isinstance(extra, dict) else None


def add_usage(total: Fields, more: Fields) -> Fields:
    """Add two sets of counts; a count that neither has stays None."""
    names = dict.fromkeys((*total, *more))
    counts = {name: [usage[name] for usage in (total, more) if usage.get(name) is not None] for name in names}
    return {name: min(sum(addends), _MOST) if addends else None for name, addends in counts.items()}


def _chunk_fields(update: Fields) -> Fields:
    content = update.get("content")
    content = content if isinstance(content, dict) else {}
    fields: Fields = {"text": content["text"] if isinstance(content.get("text"), str) else ""}
    if content.get("type") != "text":
        fields["title"] = f"{content.get('type')} content"
    if isinstance(update.get("messageId"), str):
        fields["message_id"] = update["messageId"]
    return fields


def _tool_event(update: Fields) -> tuple[str, Fields]:
    fields: Fields = {
        "tool_call_id": str(update.get("toolCallId")),
        "title": update.get("title"),
        "tool_name": tool_name(update),
        "tool_input": update.get("rawInput"),
    }
    if update.get("status") not in _FINISHED:
        return "tool_call", fields
    failed = update["status"] == "failed"
    return "tool_result", fields | {"tool_result": _tool_result(update, failed), "tool_error": failed}


def tool_name(update: Fields) -> str | None:
    """Return the tool's own name if the agent sent it, otherwise the kind of tool."""
    extra = update.get("_meta")
    for details in extra.values() if isinstance(extra, dict) else ():
        if isinstance(details, dict) and isinstance(details.get("toolName"), str):
            return str(details["toolName"])
    kind = update.get("kind")
    return kind if isinstance(kind, str) and kind != "other" else None


def _tool_result(update: Fields, failed: bool) -> Fields:
    result: Fields = {}
    texts, patches = [], []
    for block in only_dicts(update.get("content")):
        inner = block.get("content")
        if block.get("type") == "diff":
            patches.append(block)
        elif isinstance(inner, dict) and isinstance(inner.get("text"), str):
            texts.append(inner["text"])
    text = join_texts(texts, "\n")
    if texts:
        result["content"] = text
    if patches:
        result["structured_patch"] = patches
    paths = [location.get("path") for location in only_dicts(update.get("locations"))]
    if path := next((path for path in [*paths, *(patch.get("path") for patch in patches)] if path), None):
        result["file_path"] = path
    output = update.get("rawOutput")
    parts = {}
    if isinstance(output, dict):
        parts = {key: output[key] for key in _RESULT_KEYS if isinstance(output.get(key), str)}
    if output is not None and sum(map(json_length, parts.values())) <= LONG:  # otherwise it is only in `raw`
        result["raw_output"] = output
    result |= parts
    if failed and "error" not in result:
        result["error"] = text[:LONG] or "the tool failed"
    return result


def only_dicts(value: Any) -> list[Fields]:
    """Return the mappings in a list; nothing if the value is not a list."""
    return [entry for entry in value if isinstance(entry, dict)] if isinstance(value, list) else []


def _system_title(kind: Any, update: Fields) -> str:
    keys = ("title", "currentModeId", "modeId", "status")
    detail = next((update[key] for key in keys if isinstance(update.get(key), str)), None)
    return f"{kind}: {detail}" if detail else str(kind)


def _number(value: Any) -> int | float | None:
    """Return the count or amount; None if it is not a number, or one that no session can reach."""
    if not isinstance(value, int | float) or isinstance(value, bool):
        return None
    return value if 0 <= value <= _MOST else None
