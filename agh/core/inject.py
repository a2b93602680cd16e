"""History as text for an agent that has lost its own memory of a session. Pure.

The newest part that fits into a budget of characters is kept, and a note says how much was left out. Text
is cut between characters, never inside one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from agh.core.markdown import result_text
from agh.core.transcript import Message

HEADER = "RESUME CONTEXT FOR CONTINUING TASK"
PAUSED_HEADER = (
    "## Session Context (Resumed)\n"
    "This session was paused and has now resumed. Below is a summary of recent activity you were involved in "
    "before the pause."
)
INSTRUCTIONS = (
    "You are continuing the task above in a new process. Go on from where the history ends. "
    "Do not repeat work that is already finished."
)
MESSAGE_LIMIT, RESULT_LIMIT, BUDGET = 2_000, 500, 60_000


def history(messages: Sequence[Message], budget: int = BUDGET, omitted: int = 0) -> str | None:
    """Return the execution history, or None if it is empty. `omitted` messages came before these."""
    lines = [line for message in messages if (line := _format(message))]
    if omitted or sum(map(len, lines)) + len(lines) - 1 > budget:
        budget -= len(_omission_note(omitted + len(lines))) + 1
    newest_first: list[str] = []
    for line in reversed(lines):
        budget -= len(line) + 1
        if budget < -1:
            break
        newest_first.append(line)
    if left_out := omitted + len(lines) - len(newest_first):
        newest_first.append(_omission_note(left_out))
    return "\n".join(reversed(newest_first)) if lines else None


def size(messages: Sequence[Message]) -> int:
    """Return how many characters these messages take up in a history."""
    return sum(len(_format(message)) + 1 for message in messages)


def _omission_note(count: int) -> str:
    return f"[{count} earlier entries are left out]"


def paused_context(tail: Sequence[Message], budget: int, scratch_pad: str | None) -> str | None:
    """Return the section that tells an agent what a checkpoint has of its conversation; None if nothing."""
    past = history(tail, budget)
    pad = f"Your scratch pad:\n{scratch_pad}" if scratch_pad else None
    parts = [part for part in (past, pad) if part]
    return "\n\n".join([PAUSED_HEADER, *parts]) if parts else None


def with_history(past: str, prompt: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the prompt with the `past` before its text and the instructions after it.

    What a checkpoint has of the past is a section of its own, followed by the prompt.
    """
    texts = [str(block["text"]) for block in prompt if block.get("type") == "text"]
    others = [block for block in prompt if block.get("type") != "text"]
    request = "\n".join(texts)
    if past.startswith(PAUSED_HEADER):
        return [{"type": "text", "text": f"{past}\n\n=== CURRENT REQUEST ===\n{request}"}, *others]
    text = (
        f"{HEADER}\n\n=== EXECUTION HISTORY ===\n{past}\n\n=== CURRENT REQUEST ===\n{request}\n\n"
        f"=== INSTRUCTIONS ===\n{INSTRUCTIONS}"
    )
    return [{"type": "text", "text": text}, *others]


def _format(message: Message) -> str:
    role = message["role"]
    if role == "user":
        return f"[USER]: {_cut(message['content'], MESSAGE_LIMIT)}"
    if role == "assistant":
        return f"[ASSISTANT]: {_cut(message['content'], MESSAGE_LIMIT)}" if message["content"] else ""
    name = message.get("tool_name") or message.get("title") or "tool"
    if role == "tool_call":
        return f"[TOOL CALL: {name}]"
    if role == "tool_result":
        return f"[TOOL RESULT: {name}] {_cut(result_text(message.get('tool_result')), RESULT_LIMIT)}"
    return ""


def _cut(text: str, limit: int) -> str:
    return text if len(text) <= limit else text[: limit - 1] + "…"
