"""The session/update payloads that this agent sends, and the replay of a stored session. Pure."""

from agh_echo.kinds import Frame

_CHUNKS = {"user": "user_message", "agent": "agent_message", "thought": "agent_thought"}


def chunk(kind: str, text: str, message_id: str) -> Frame:
    """Build a chunk of text. `kind` is user_message, agent_message or agent_thought."""
    content = {"type": "text", "text": text}
    return {"sessionUpdate": f"{kind}_chunk", "content": content, "messageId": message_id}


def output(text: str) -> list[Frame]:
    """Build the content of a tool call that printed something."""
    return [{"type": "content", "content": {"type": "text", "text": text}}]


def usage(used: int, cost: float) -> Frame:
    """Build an update with the session's tokens and cost."""
    update: Frame = {"sessionUpdate": "usage_update", "used": used, "size": 200_000}
    return update | ({"cost": {"amount": cost, "currency": "USD"}} if cost else {})


def plan(texts: list[str]) -> Frame:
    """Build a plan whose first entry is in progress and whose others are pending."""
    entries: list[Frame] = [{"content": text, "priority": "medium", "status": "pending"} for text in texts]
    entries[0]["status"] = "in_progress"
    return {"sessionUpdate": "plan", "entries": entries}


def replay(records: list[Frame]) -> list[Frame]:
    """Build the updates that replay stored records."""
    updates = []
    for record in records:
        if "tool" in record:
            updates.append({"sessionUpdate": "tool_call", **record["tool"]})
        if "plan" in record:
            updates.append(record["plan"])
        for key, kind in _CHUNKS.items():
            if key in record:
                updates.append(chunk(kind, record[key], record["id"]))
    return updates
