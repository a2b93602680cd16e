"""The parameters of a session's first request: its system prompt, and the tools the agent may use.

ACP has a session capability for system prompts. An agent without it may take them in `_meta`, if its record
says where. They are sent whenever a conversation is started, loaded, resumed or forked.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from agh.adapters.agents import AgentRecord
from agh.core.rules import KINDS
from agh.errors import SystemPromptRefused


def opening(
    record: AgentRecord,
    capabilities: Mapping[str, Any],
    prompt: Mapping[str, str] | None,
    tools: Sequence[str],
) -> dict[str, Any]:
    """Return the additional parameters for session/new, session/load, session/resume and session/fork.

    `prompt` is `{"mode": "append" or "override", "text": …}`; raises if the agent cannot take it. `tools` are
    sent only to an agent that has an option for them; for all others they remain rules that agh applies.
    """
    params: dict[str, Any] = {}
    own = [tool for tool in tools if tool.partition("(")[0] not in KINDS]
    if own and "allowed_tools" in record.session_meta:
        _place(params, record.session_meta["allowed_tools"], own)
    if prompt is None:
        return params
    mode, text = prompt["mode"], prompt["text"]
    session = capabilities.get("sessionCapabilities")
    offered = session.get("systemPrompt") if isinstance(session, dict) else None
    if isinstance(offered, dict):
        if mode == "override" and not _can_override(offered):
            raise SystemPromptRefused(record.name, " in place of its own", hint="use --append-system-prompt")
        return params | {"systemPrompt": {"mode": mode, "content": [{"type": "text", "text": text}]}}
    where = record.session_meta.get("append_system_prompt" if mode == "append" else "system_prompt")
    if where is None:
        raise SystemPromptRefused(record.name, "")
    _place(params, where, text)
    return params


def fork_point(record: AgentRecord, params: dict[str, Any], message_id: str) -> None:
    """Add the message to fork at to the parameters of session/fork; do nothing if the agent takes none."""
    if "fork_at" in record.session_meta:
        _place(params, record.session_meta["fork_at"], {"version": 1, "messageId": message_id})


def directories(capabilities: Mapping[str, Any], paths: Sequence[str]) -> dict[str, Any]:
    """Return the parameter for directories beside the workspace, if the agent takes them."""
    session = capabilities.get("sessionCapabilities")
    is_offered = isinstance(session, dict) and session.get("additionalDirectories") is not None
    return {"additionalDirectories": [*paths]} if paths and is_offered else {}


def _can_override(offered: Mapping[str, Any]) -> bool:
    """Tell whether an agent takes a prompt in place of its own; agents of early 2026 say so one level up."""
    modes = offered.get("mode")
    return (isinstance(modes, dict) and modes.get("override") is not None) or offered.get(
        "override"
    ) is not None


def _place(params: dict[str, Any], path: str, value: Any) -> None:
    """Put a value at a dotted path below `_meta`."""
    *folders, last = path.split(".")
    inner = params.setdefault("_meta", {})
    for folder in folders:
        inner = inner.setdefault(folder, {})
    inner[last] = value
