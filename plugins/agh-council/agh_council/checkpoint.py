"""The checkpoint of a council: each member with its own tail and scratch pad, and the open delegations."""

from __future__ import annotations

from typing import Any

from agh.core.checkpoint import agent, checkpoint
from agh.home import Session
from agh.store.checkpoint import paused_at
from agh.store.reader import Reader
from agh_council.fold import fold
from agh_council.state import State


def derive(session: Session, elapsed: float | None = None) -> dict[str, Any]:
    """Return the checkpoint that the log describes, up to the pause if the log ends with one."""
    with Reader(session) as reader:
        last_sequence, created_at, recorded_elapsed = reader.snapshot(lambda: paused_at(reader))
        state = fold((row for row in reader.rows() if row.sequence <= last_sequence), reader.session_id)
    return checkpoint(
        state.session_id,
        budget_spent=state.spent,
        rounds_completed=state.rounds_completed,
        elapsed_seconds=recorded_elapsed if elapsed is None else elapsed,
        active_agents=_active_agents(state),
        pending_delegations=[
            {
                "target": delegation.target,
                "message": delegation.message,
                "round": delegation.round,
                "status": delegation.status,
            }
            for delegation in state.delegations.values()
            if delegation.is_open
        ],
        transcript_replay_depth=state.profile.transcript_replay_depth,
        last_sequence=last_sequence,
        created_at=created_at,
    )


def _active_agents(state: State) -> list[dict[str, Any]]:
    return [
        agent(
            member.agent_id,
            state.tail(member.agent_id),
            acp_session_id=member.acp_session_id,
            restore=member.restore,
            parent_agent_id=member.parent_agent_id,
            depth=member.depth,
            expertise_snapshot=state.scratch_pads.get(member.agent_id),
            session_id=member.session_id,
        )
        for member in sorted(state.members.values(), key=lambda member: member.agent_id)
    ]
