"""How a chat ends."""

from __future__ import annotations

from agh.cli.chat.outbox import Prompt
from agh.core.named_tuple import NamedTuple


class Ending(NamedTuple):
    """How the chat ended: the user left, goes to another session, wants another agent for this one, or has
    a prompt for a stopped one."""

    session_id: str | None = None
    agent: str | None = None
    prompt: Prompt | None = None
    error: BaseException | None = None
