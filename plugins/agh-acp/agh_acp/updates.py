"""Rows of a log as ACP updates. Pure.

What the agent sent is passed on as it was stored. A row without it, of an import or a redaction, is rebuilt
from its fields. What only agh has to say is a notice, or a message of its own for a client that cannot
show notices.
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from typing import Any

from agh.core.events import MARKER_CREATED, Row
from agh_acp.capabilities import Client, options_for

Update = dict[str, Any]

CHUNKS = {"agent_message": "agent_message_chunk", "thought": "agent_thought_chunk"}
_TOOLS = ("tool_call", "tool_result")
_PLANS = ("plan_update", "plan_removed")
_CHILD = "child session: "
_LOUD = ("warning", "error")
_SILENT = ("prompt_cancel", "prompt_dropped", "permission_timeout", "question_timeout")


def updates_of(row: Row, client: Client, terminals: Container[str] = ()) -> list[Update]:
    """Return the updates that a row is for the client, in order. A prompt is one for each of its blocks.

    `terminals` are those that the client itself runs.
    """
    content = row.parsed()
    if row.type == "user_message":
        return prompt_updates(content)
    update = stored_update(content)
    if row.type in _TOOLS:
        return [tool_update(update or written_tool(row.type, content), content, terminals)]
    if row.type in CHUNKS:
        return [update or chunk(CHUNKS[row.type], content.get("text") or "", content.get("message_id"))]
    if row.type == "runtime_warning":
        return [notice(client, row, str(content.get("text") or ""), "warning")]
    if row.type == MARKER_CREATED and update is None:
        return marker_updates(client, row, content)
    if update is None or str(content.get("title")).startswith(_CHILD):
        return []
    return fitting_updates(client, row, update, content)


def stored_update(content: Mapping[str, Any]) -> Update | None:
    """Return the agent's own update in a row's content; None if there is none."""
    raw = content.get("raw")
    if isinstance(raw, dict) and isinstance(raw.get("params"), dict):
        raw = raw["params"].get("update")  # a message that was repaired is stored whole
    return raw if isinstance(raw, dict) and isinstance(raw.get("sessionUpdate"), str) else None


def stored_notification(row: Row, content: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return a notification of the agent that is not of the protocol, such as `_vendor/thing`."""
    raw = content.get("raw")
    if row.type != "system" or not isinstance(raw, dict) or "id" in raw:
        return None
    return raw if str(raw.get("method")).startswith("_") else None


def prompt_updates(content: Mapping[str, Any]) -> list[Update]:
    """Return a user's message: its text, then what was attached."""
    attachments = content.get("attachments")
    blocks = (
        [block for block in attachments if isinstance(block, dict)] if isinstance(attachments, list) else []
    )
    if content.get("text") or not blocks:
        blocks = [{"type": "text", "text": content.get("text") or ""}, *blocks]
    return [{"sessionUpdate": "user_message_chunk", "content": block} for block in blocks]


def chunk(kind: str, text: str, message_id: Any = None) -> Update:
    """Return an update with a piece of text."""
    update = {"sessionUpdate": kind, "content": {"type": "text", "text": text}}
    return update | ({"messageId": message_id} if isinstance(message_id, str) else {})


def notice(client: Client, row: Row, text: str, severity: str, *, live: bool = True) -> Update:
    """Return what agh itself has to say. Notices are no history: a replay has a message instead."""
    if client.notices and live:
        return {"sessionUpdate": "notice", "severity": severity, "title": text or "agh"}
    return chunk("agent_message_chunk", f"[agh] {text}\n", f"agh-{row.id}")


def marker_updates(
    client: Client, row: Row, content: Mapping[str, Any], *, live: bool = True
) -> list[Update]:
    """Return a notice if a marker is worth one: a warning, or that the agent has lost its memory."""
    kind, severity = content.get("kind"), str(content.get("severity"))
    if kind in _SILENT or (severity not in _LOUD and kind != "context_reset"):
        return []
    return [notice(client, row, str(content.get("summary") or kind), severity, live=live)]


def written_tool(type: str, content: Mapping[str, Any]) -> Update:
    """Return the update of a tool call from the fields of its row."""
    update: Update = {
        "sessionUpdate": "tool_call" if type == "tool_call" else "tool_call_update",
        "toolCallId": str(content.get("tool_call_id")),
    }
    title = content.get("title") or content.get("tool_name") or ("tool" if type == "tool_call" else None)
    if title is not None:
        update["title"] = str(title)
    if content.get("tool_input") is not None:
        update["rawInput"] = content["tool_input"]
    if type == "tool_call":
        return update | {"status": "in_progress"}
    text = result_text(content)
    update["status"] = "failed" if content.get("tool_error") else "completed"
    return update | ({"content": [text_content(text)]} if text else {})


def tool_update(update: Update, content: Mapping[str, Any], terminals: Container[str] = ()) -> Update:
    """Return a tool call without terminals that the client cannot show; their output is text."""
    blocks = update.get("content")
    if not isinstance(blocks, list) or not any(_is_foreign_terminal(block, terminals) for block in blocks):
        return update
    rest = [block for block in blocks if not _is_foreign_terminal(block, terminals)]
    text = result_text(content)
    return {**update, "content": [*rest, *([text_content(text)] if text else [])]}


def result_text(content: Mapping[str, Any]) -> str:
    """Return what a tool printed, as its row has it."""
    result = content.get("tool_result")
    result = result if isinstance(result, dict) else {}
    texts = (result.get(name) for name in ("content", "stdout", "stderr", "error"))
    return "\n".join(text for text in texts if isinstance(text, str) and text)


def text_content(text: str) -> dict[str, Any]:
    return {"type": "content", "content": {"type": "text", "text": text}}


def fitting_updates(client: Client, row: Row, update: Update, content: Mapping[str, Any]) -> list[Update]:
    """Return the agent's update if the client understands it, or what comes closest to it."""
    kind = update["sessionUpdate"]
    if kind == "notice" and not client.notices:
        return [notice(client, row, str(content.get("summary") or update.get("title") or ""), "info")]
    if kind.startswith("compaction_") and not client.compactions:
        return marker_updates(client, row, content)
    if kind in _PLANS and not client.plans:
        plan = update.get("plan")
        entries = plan.get("entries") if isinstance(plan, dict) else []
        return [{"sessionUpdate": "plan", "entries": entries if isinstance(entries, list) else []}]
    if kind == "config_option_update":
        return [{**update, "configOptions": options_for(client, update.get("configOptions"))}]
    return [update]


def _is_foreign_terminal(block: Any, terminals: Container[str]) -> bool:
    """Tell whether a block is a terminal that the client does not run."""
    if not isinstance(block, dict) or block.get("type") != "terminal":
        return False
    return str(block.get("terminalId")) not in terminals
