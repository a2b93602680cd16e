"""What the agent waits for: permission requests and questions, closed together when nobody can answer."""

from __future__ import annotations

from typing import Any

from agh.keeper.agent import permissions, questions
from agh.keeper.session import Live


def cancel_waiting(live: Live, decided_by: str, turn_id: str | None = None) -> None:
    """Cancel every request that waits for the user, or only those of the named turn."""
    permissions.cancel_all(live, decided_by, turn_id)
    if live.agent.questions:
        questions.close_all(live, decided_by, turn_id)


def withdraw(live: Live, rpc_id: Any) -> None:
    """Inside a batch: cancel what the agent takes back (`$/cancel_request`)."""
    permissions.withdraw(live, rpc_id)
    questions.withdraw(live, rpc_id)
