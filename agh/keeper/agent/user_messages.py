"""User messages that an agent reports in a live session: our own prompt again, or one that we did not send.

Each chunk is stored as a `system` event, never as the model's words. When the message is complete, one that
did not come from us gets a marker in the transcript.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from agh.core.events import marker
from agh.core.named_tuple import NamedTuple

if TYPE_CHECKING:
    from agh.keeper.session import Live

CHUNK = "user_message_chunk"
LONGEST = 2_000  # characters of a message that are shown
_COMPARED = 100_000  # characters
# What may come in the middle of a message.
_INFORMATION = (
    "usage_update",
    "session_info_update",
    "available_commands_update",
    "config_option_update",
    "current_mode_update",
)


class UserMessage(NamedTuple):
    """A message of which chunks have come."""

    message_id: str | None
    text: str


def follow_message(live: Live, update: Mapping[str, Any]) -> None:
    """Inside a batch, before an update is recorded: add its chunk to the message, or end the message."""
    kind, pending = update.get("sessionUpdate"), live.agent.user_message
    if kind != CHUNK:
        if kind not in _INFORMATION:
            end_message(live)
        return
    message_id = update.get("messageId")
    message_id = message_id if isinstance(message_id, str) else None
    if pending is not None and message_id is not None and pending.message_id not in (None, message_id):
        end_message(live)
        pending = None
    content = update.get("content")
    text = content.get("text") if isinstance(content, dict) else None
    before = pending.text if pending is not None else ""
    text = before + text if isinstance(text, str) and len(before) < _COMPARED else before
    live.agent.user_message = UserMessage(message_id, text[:_COMPARED])


def end_message(live: Live) -> None:
    """Inside a batch: mark a message that is complete and did not come from us."""
    message, live.agent.user_message = live.agent.user_message, None
    if message is None or not message.text.strip() or is_repeated(message.text, live.agent.sent):
        return
    summary = f"a message that agh did not send: {message.text.strip()[:LONGEST]}"
    live.log.add(marker("outside_message", summary, turn=live.turns.current_id or None))


def is_repeated(text: str, prompts: Iterable[list[dict[str, Any]]]) -> bool:
    """Tell whether a text is one of these prompts, the beginning of one, or one of its blocks."""
    words = _words(text)
    for prompt in prompts:
        blocks = [block["text"] for block in prompt if isinstance(block.get("text"), str)]
        if _words("".join(blocks)).startswith(words) or _words(" ".join(blocks)).startswith(words):
            return True
        if words in map(_words, blocks):
            return True
    return False


def _words(text: str) -> str:
    """Return the beginning of a text without its line breaks, which an agent may change."""
    return " ".join(text[:_COMPARED].split())
