"""The checkpoint of a council: every member with its own tail and scratch pad, and what is still open."""

from __future__ import annotations

from typing import Any

from agh.core.checkpoint import agent, checkpoint
from agh.store.checkpoint import paused_at
from agh.store.reader import Reader
from agh_council.state import State, fold


def derive(directory: str, elapsed: float | None = None) -> dict[str, Any]:
    """The checkpoint as the log stands, up to a pause that it ends with."""
    with Reader(directory) as reader:
        last, created_at, told = reader.snapshot(lambda: paused_at(reader))
        state = fold((row for row in reader.rows() if row.sequence <= last), reader.session_id)
    return checkpoint(
        state.session_id,
        budget_spent=state.spent,
        rounds_completed=state.rounds_completed,
        elapsed_seconds=told if elapsed is None else elapsed,
        active_agents=_agents(state),
        pending_delegations=[
            {"target": one.target, "message": one.message, "round": one.round, "status": one.status}
            for one in state.delegations.values()
            if one.is_open
        ],
        transcript_replay_depth=state.profile.transcript_replay_depth,
        last_sequence=last,
        created_at=created_at,
    )


def _agents(state: State) -> list[dict[str, Any]]:
    return [
        agent(
            one.agent_id,
            state.tail(one.agent_id),
            acp_session_id=one.acp_session_id,
            restore=one.restore,
            parent_agent_id=one.parent_agent_id,
            depth=one.depth,
            expertise_snapshot=state.pads.get(one.agent_id),
            session_id=one.session_id,
        )
        for one in sorted(state.members.values(), key=lambda one: one.agent_id)
    ]
