"""How a chat ends."""

from __future__ import annotations

from typing import NamedTuple

from agh.cli.chat.outbox import Prompt


class Ending(NamedTuple):
    """How the chat ended: the user left, goes to another session, wants another agent for this one, or has
    a prompt for a stopped one."""

    session_id: str | None = None
    agent: str | None = None
    prompt: Prompt | None = None
    error: BaseException | None = None
