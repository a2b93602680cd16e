"""What the agent waits for: permission requests and questions, closed together when nobody can answer.

A request that agh does not know is answered by an editor, or refused.
"""

from __future__ import annotations

from typing import Any

from agh.core.acp.frames import Request
from agh.keeper.agent import permissions, questions
from agh.keeper.session import Live

METHOD_NOT_FOUND = -32601


def cancel_waiting(live: Live, decided_by: str, turn_id: str | None = None) -> None:
    """Cancel every request that waits for the user, or only those of the named turn."""
    permissions.cancel_all(live, decided_by, turn_id)
    if live.agent.questions:
        questions.close_all(live, decided_by, turn_id)


def withdraw(live: Live, rpc_id: Any) -> None:
    """Inside a batch: cancel what the agent takes back (`$/cancel_request`)."""
    permissions.withdraw(live, rpc_id)
    questions.withdraw(live, rpc_id)


def pass_on(live: Live, frame: Request) -> None:
    """Let an editor that has the session open answer what agh does not know; else refuse it."""
    if live.agent.lending is None or not live.agent.lending.pass_on(frame):
        text = f"agh does not serve {frame.method}"
        live.agent.connected.refuse(frame.id, METHOD_NOT_FOUND, text)
