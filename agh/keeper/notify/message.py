"""A notification as every notifier gets it, composed by a keeper or by a command.

Promises: secrets are hidden, and it is short.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agh.core.events import timestamp
from agh.core.redaction.redact import Redactor

LONGEST = 2000


def compose(
    metadata: Mapping[str, Any],
    redactor: Redactor,
    event: str,
    what: str,
    text: str,
    request_id: str | None = None,
) -> dict[str, Any]:
    """Return the notification of what happened in a session."""
    label = metadata.get("name") or metadata.get("title") or metadata["id"]
    message: dict[str, Any] = redactor.json(
        {
            "event": event,
            "session_id": metadata["id"],
            "name": metadata.get("name"),
            "agent_name": metadata.get("agent_name"),
            "workspace_path": metadata.get("workspace_path"),
            "request_id": request_id,
            "title": f"{label} {what}",
            "text": text,
            "timestamp": timestamp(),
        }
    )
    return message | {"title": message["title"][:LONGEST], "text": message["text"][:LONGEST]}
