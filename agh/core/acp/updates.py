"""Translating an agent's ACP `session/update` into the type and fields of an event. Pure.

Nothing is dropped: an unknown kind of update becomes a `system` event that keeps the update in `raw`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import orjson

from agh.core.acp.frames import Notification, only_dicts
from agh.core.acp.long_text import LONG
from agh.core.acp.members import member
from agh.core.acp.notes import MARKER_CREATED, compaction_marker, notice_marker
from agh.core.acp.tool_result import tool_event

Fields = dict[str, Any]

MAX_COMMANDS = 500
_CHUNKS = ("agent_message_chunk", "agent_thought_chunk")
_MOST = 10**12  # tokens, or units of a currency; the sum over all turns still fits into 64 bits


def event_of(
    update: Fields,
    earlier: Fields | None = None,
    terminal: Callable[[str], str | None] | None = None,
) -> tuple[str, Fields]:
    """Return the event type of an update, and its content fields except `raw`.

    `earlier` is what was carried of its tool call; `terminal` returns the output of one of our terminals.
    """
    kind = update.get("sessionUpdate")
    if kind in _CHUNKS:
        return ("agent_message" if kind == "agent_message_chunk" else "thought"), _chunk_fields(update)
    if kind in ("tool_call", "tool_call_update"):
        return tool_event(update, earlier, terminal)
    if kind in ("plan", "plan_update", "plan_removed"):
        return "plan", _plan_fields(update)
    if kind == "usage_update":
        return "usage", {"usage": context_usage(update)}
    note = notice_marker(update) if kind == "notice" else None
    note = compaction_marker(update) if kind == "compaction_update" else note
    if note is not None:
        return MARKER_CREATED, note
    return "system", {"title": _system_title(kind, update)}


def plain_chunk(frame: Notification, session: str | None) -> tuple[str, Fields, Fields] | None:
    """Return the event type, the fields and the update of a chunk that is a text of this session, no more.

    Return None for any other frame. Type and fields are those of `event_of`.
    """
    params, update = frame.params, None
    if frame.method == "session/update" and type(params) is dict and params.get("sessionId") == session:
        update = params.get("update")
    if type(update) is not dict or "_meta" in update or frame.sanitized:
        return None
    kind, content = update.get("sessionUpdate"), update.get("content")
    if kind not in _CHUNKS or type(content) is not dict or content.get("type") != "text":
        return None
    text, message_id = content.get("text"), update.get("messageId")
    if type(text) is not str or not text:
        return None
    fields = {"text": text, "message_id": message_id} if type(message_id) is str else {"text": text}
    return ("agent_message" if kind == "agent_message_chunk" else "thought"), fields, update


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
    return {ours: _number(usage.get(theirs, usage.get(ours))) for ours, theirs in names.items()}


def known_usage(usage: Fields) -> Fields:
    """Return the counts and amounts without those that are unknown."""
    return {name: value for name, value in usage.items() if value is not None}


def request_usage(carrier: Fields) -> Fields | None:
    """Return the tokens of one model request, which some agents put into `_meta` of a chunk or an answer."""
    extra = carrier.get("_meta")
    if not isinstance(extra, dict):
        return None
    quota = extra.get("quota")  # Gemini's place for it
    counts = token_usage(quota.get("token_count")) if isinstance(quota, dict) else None
    if counts is not None and counts["total_tokens"] is None:
        parts = [counts[name] for name in ("input_tokens", "output_tokens") if counts[name] is not None]
        counts["total_tokens"] = sum(parts) if parts else None
    return token_usage(extra.get("usage")) or counts


def commands_in(update: Fields) -> list[dict[str, str]]:
    """Return the slash commands that an agent offers: name, description and a hint for what follows."""
    commands = []
    for command in only_dicts(update.get("availableCommands"))[:MAX_COMMANDS]:
        details = command.get("input")
        hint = details.get("hint") if isinstance(details, dict) else None
        fields = {"name": command.get("name"), "description": command.get("description"), "hint": hint}
        if isinstance(fields["name"], str) and fields["name"]:
            commands.append({key: value[:500] for key, value in fields.items() if isinstance(value, str)})
    return commands


def thread_status(update: Fields) -> str | None:
    """Return how Codex says its thread is, in `_meta` of a `session_info_update`; None if it does not."""
    value: Any = update.get("_meta")
    for key in ("codex", "threadStatus", "type"):
        value = value.get(key) if isinstance(value, dict) else None
    return value if isinstance(value, str) else None


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


def _plan_fields(update: Fields) -> Fields:
    """Return the id of a plan that can be updated and dropped; an agent may have several."""
    plan = update.get("plan")
    plan_id = plan.get("planId") if isinstance(plan, dict) else update.get("planId")
    return {"plan_id": plan_id[:200]} if isinstance(plan_id, str) else {}


def _system_title(kind: Any, update: Fields) -> str:
    keys = ("title", "currentModeId", "modeId", "status")
    detail = next((update[key] for key in keys if isinstance(update.get(key), str)), None)
    return f"{kind}: {detail}" if detail else str(kind)


def _number(value: Any) -> int | float | None:
    """Return the count or amount; None if it is not a number, or one that no session can reach."""
    if not isinstance(value, int | float) or isinstance(value, bool):
        return None
    return value if 0 <= value <= _MOST else None
