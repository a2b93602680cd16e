"""A bounded, redacted look back at a session. Pure: the same rows give the same bytes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from agh.core.transcript import Message

if TYPE_CHECKING:
    from agh.core.redact import Redactor

DEFAULT_LIMIT, MAX_LIMIT = 20, 100
# A marker of the first kind waits until one of the second comes; those settle one, or all that wait.
_SETTLES_ONE = {"prompt_accepted": "prompt_queued", "prompt_dropped": "prompt_queued"}
_SETTLES_ALL = {"session_recovered": "session_unhealthy"}
_WAITING = ("prompt_queued", "session_unhealthy", "mcp_auth_required")


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
    queue_generation: int,
    omitted_messages: int = 0,
) -> dict[str, Any]:
    """`messages` is the end of the transcript and all markers; the caller counts the messages before it."""
    markers = [message for message in messages if message["role"] == "marker"]
    talk = [message for message in messages if message["role"] != "marker"]
    shown_markers, shown_talk = (group[max(0, len(group) - limit) :] for group in (markers, talk))
    return {
        "session": {key: session.get(key) for key in ("id", "badge", "state")},
        "recent_markers": [redactor.json(_without_role(marker)) for marker in shown_markers],
        "recent_messages": _redacted(talk, redactor)[len(talk) - len(shown_talk) :],
        "pending_markers": _pending(markers),
        "pending_inputs": pending_inputs,
        "pending_permissions": pending_permissions,
        "omitted": {
            "messages": omitted_messages + len(talk) - len(shown_talk),
            "markers": len(markers) - len(shown_markers),
        },
        "snapshot": {
            "generated_at": generated_at,
            "event_cursor": event_cursor,
            "transcript_cursor": event_cursor,
            "queue_generation": queue_generation,
            "consistency": "persisted_reads",
        },
    }


def _redacted(talk: Sequence[Message], redactor: Redactor) -> list[Message]:
    """Return the messages without secrets, also those of which a tool call has made two messages."""
    clean: list[Message] = [redactor.json(message) for message in talk]
    for key in ("content", "thinking"):
        places = [number for number, message in enumerate(talk) if _is_said(message, key)]
        texts = redactor.chunks([talk[number][key] for number in places])
        for number, text in zip(places, texts, strict=True):
            clean[number][key] = text
    return clean


def _is_said(message: Message, key: str) -> bool:
    return message["role"] == "assistant" and isinstance(message.get(key), str)


def _pending(markers: Sequence[Message]) -> int:
    waiting = dict.fromkeys(_WAITING, 0)
    for marker in markers:
        kind = str(marker.get("kind"))
        if kind in waiting:
            waiting[kind] += 1
        elif kind in _SETTLES_ONE:
            waiting[_SETTLES_ONE[kind]] = max(0, waiting[_SETTLES_ONE[kind]] - 1)
        elif kind in _SETTLES_ALL:
            waiting[_SETTLES_ALL[kind]] = 0
    return sum(waiting.values())


def _without_role(message: Message) -> Message:
    return {key: value for key, value in message.items() if key != "role"}
