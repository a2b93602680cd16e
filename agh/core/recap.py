"""A bounded, redacted look back at a session. Pure: the same rows give the same bytes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from agh.core.transcript import Message

if TYPE_CHECKING:
    from agh.core.redaction.redact import Redactor

DEFAULT_LIMIT, MAX_LIMIT = 20, 100
_QUEUED, _NOT_QUEUED = ("prompt_queued", "prompt_steered"), ("prompt_accepted", "prompt_dropped")
_SICK = ("unhealthy", "hung")


def recap(
    session: dict[str, Any],
    messages: Sequence[Message],
    limit: int,
    redactor: Redactor,
    *,
    generated_at: str,
    event_cursor: int,
    pending_inputs: int,
    pending_permissions: int,
    pending_questions: int,
    queue_generation: int,
    omitted_messages: int = 0,
) -> dict[str, Any]:
    """Summarise the last `limit` messages and markers.

    `messages` is the tail of the transcript and all markers; `omitted_messages` came before it.
    """
    markers = [message for message in messages if message["role"] == "marker"]
    talk = [message for message in messages if message["role"] != "marker"]
    recent_markers, recent_talk = (group[max(0, len(group) - limit) :] for group in (markers, talk))
    return {
        "session": {key: session.get(key) for key in ("id", "badge", "state")},
        "recent_markers": [redactor.json(_without_role(marker)) for marker in recent_markers],
        "recent_messages": _redact_messages(talk, len(talk) - len(recent_talk), redactor),
        "pending_markers": _count_pending(markers, session, pending_inputs),
        "pending_inputs": pending_inputs,
        "pending_permissions": pending_permissions,
        "pending_questions": pending_questions,
        "omitted": {
            "messages": omitted_messages + len(talk) - len(recent_talk),
            "markers": len(markers) - len(recent_markers),
        },
        "snapshot": {
            "generated_at": generated_at,
            "event_cursor": event_cursor,
            "transcript_cursor": event_cursor,
            "queue_generation": queue_generation,
            "consistency": "persisted_reads",
        },
    }


def _redact_messages(talk: Sequence[Message], first: int, redactor: Redactor) -> list[Message]:
    """Return the messages from the first that is shown on, without secrets.

    A secret that a tool call split across two messages is hidden too, even if it begins in one not shown.
    """
    clean: list[Message] = [redactor.json(message) for message in talk[first:]]
    for key in ("content", "thinking"):
        indexes = [index for index, message in enumerate(talk) if _is_spoken(message, key)]
        texts = redactor.chunks([talk[index][key] for index in indexes], each=True)
        for index, text in zip(indexes, texts, strict=True):
            if index >= first:
                clean[index - first][key] = text
    return clean


def _is_spoken(message: Message, key: str) -> bool:
    return message["role"] == "assistant" and isinstance(message.get(key), str)


def _count_pending(markers: Sequence[Message], session: dict[str, Any], pending_inputs: int) -> int:
    """Count the markers that are not settled: by a later marker, or by how the session is now.

    A prompt that no longer waits needs none, nor does a session that is well again or stopped.
    """
    queued = unhealthy = missing_logins = 0
    for marker in markers:
        kind = str(marker.get("kind"))
        if kind in _QUEUED:
            queued += 1
        elif kind in _NOT_QUEUED:
            queued = max(0, queued - 1)
        elif kind == "session_unhealthy":
            unhealthy += 1
        elif kind == "session_recovered":
            unhealthy = missing_logins = 0
        elif kind == "mcp_auth_required":
            missing_logins += 1
    if session.get("badge") not in _SICK:
        unhealthy = 0
    if session.get("state") == "stopped":
        missing_logins = 0
    return min(queued, pending_inputs) + unhealthy + missing_logins


def _without_role(message: Message) -> Message:
    return {key: value for key, value in message.items() if key != "role"}
