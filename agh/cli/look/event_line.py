"""One event as one line on a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from agh.console.terminal import clean, one_line, styled, width
from agh.core.events import Row

if TYPE_CHECKING:
    from agh.console.theme import Role

ROLES: dict[str, Role] = {
    "user_message": "prompt",
    "agent_message": "title",
    "error": "error",
    "tool_call": "note",
    "tool_result": "note",
    "permission": "warning",
    "question": "warning",
    "runtime_warning": "warning",
    "session_stopped": "warning",
}


def event_line(row: Row) -> str:
    kind = row.type.removeprefix("transcript_")
    head = clean(f"{row.sequence:>6}  {row.timestamp[11:19]}  {kind:<17}")
    text = one_line(summary(row.type, row.parsed()), max(20, width() - len(head) - 2))
    role = ROLES.get(row.type)
    return f"{styled(head, 'muted')}  {styled(text, role) if role else text}".rstrip()


def stop_line(name: str, notice: dict[str, Any]) -> str:
    """Return the line at the end of a session's events: how it stopped."""
    failure = as_dict(notice["failure"]).get("summary")
    return clean(f"-- {name} stopped: {notice['stop_reason']}" + (f" ({failure})" if failure else ""))


def summary(type: str, content: dict[str, Any]) -> str:
    """Summarize an event in a few words."""
    if type in ("tool_call", "tool_result"):
        name = content.get("tool_name") or content.get("title") or content.get("tool_call_id") or "tool"
        result = as_dict(content.get("tool_result"))
        text = next((str(result[key]) for key in ("error", "stdout", "content") if result.get(key)), "")
        title = str(content.get("title") or "")
        if type == "tool_call":
            return f"{name} {title if title != name else ''}".strip()
        outcome = content.get("outcome") or ("failed" if content.get("tool_error") else "ok")
        return f"{name} {outcome}{': ' + text if text else ''}"
    if type == "permission":
        from agh.core.acp.permission import headline

        decided_by = f" (by {content['decided_by']})" if content.get("decided_by") else ""
        return f"{content.get('decision') or 'asked'}{decided_by}: {headline(content)}"
    if type == "question":
        decided_by = f" (by {content['decided_by']})" if content.get("decided_by") else ""
        answer = ", ".join(f"{name}={value}" for name, value in as_dict(content.get("answer")).items())
        words = content.get("message") or answer or content.get("request_id")
        return f"{content.get('decision') or 'asked'}{decided_by}: {words}"
    if type == "plan":
        from agh.core.acp.plans import plan_lines

        return "; ".join(plan_lines(content.get("raw")))
    if type == "usage":
        usage = as_dict(content.get("usage"))
        return ", ".join(f"{key} {value}" for key, value in usage.items() if value is not None)
    if type.startswith("transcript_marker"):
        return f"{content.get('kind')}: {content.get('summary')}"
    keys = ("text", "error", "title", "stop_reason", "strategy", "summary", "attached_to")
    return next((str(content[key]) for key in keys if content.get(key)), "")


def as_dict(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
