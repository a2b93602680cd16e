"""A checkpoint: what a paused session needs to go on, as one sealed JSON document. Pure.

It is derived from the log and can be made again from it; the same rows give the same bytes. The seal is
a SHA-256 over the whole text with the digest itself taken as zeros, so that no bit of it can change
unseen.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import orjson

from agh.core.transcript import Message

Checkpoint = dict[str, Any]
_BLANK = "0" * 64


def checkpoint(
    session_id: str,
    *,
    budget_spent: float,
    rounds_completed: int,
    elapsed_seconds: float,
    active_agents: Iterable[dict[str, Any]],
    pending_delegations: Iterable[dict[str, Any]],
    transcript_replay_depth: int,
    last_sequence: int,
    created_at: str,
) -> Checkpoint:
    """The document, not yet sealed."""
    return {
        "session_id": session_id,
        "constraint_state": {
            "budget_spent": round(budget_spent, 9),
            "rounds_completed": rounds_completed,
            "elapsed_seconds": round(elapsed_seconds, 3),
        },
        "active_agents": list(active_agents),
        "rounds_completed": rounds_completed,
        "pending_delegations": list(pending_delegations),
        "transcript_replay_depth": transcript_replay_depth,
        "last_sequence": last_sequence,
        "created_at": created_at,
    }


def agent(
    agent_id: str,
    tail: Sequence[Message],
    *,
    acp_session_id: str | None,
    restore: dict[str, Any] | None,
    parent_agent_id: str | None = None,
    depth: int = 0,
    expertise_snapshot: str | None = None,
    **more: Any,
) -> dict[str, Any]:
    """One agent of the session: who it is, and the end of its own conversation and nobody else's."""
    return {
        "agent_id": agent_id,
        "parent_agent_id": parent_agent_id,
        "depth": depth,
        "conversation_tail": list(tail),
        "expertise_snapshot": expertise_snapshot,
        "acp_session_id": acp_session_id,
        "restore": restore,
        **more,
    }


def seal(made: Checkpoint) -> bytes:
    """The document as it is stored."""
    blank = orjson.dumps({**made, "sha256": _BLANK}, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)
    return _with_digest(blank, _BLANK, _hash(blank))


def unseal(stored: bytes) -> Checkpoint:
    """The document as it was made. ValueError says why it is not that."""
    try:
        found = orjson.loads(stored)
    except orjson.JSONDecodeError as error:
        raise ValueError(f"not JSON: {error}") from None
    digest = found.get("sha256") if isinstance(found, dict) else None
    if not isinstance(digest, str) or _hash(_with_digest(stored, digest, _BLANK)) != digest:
        raise ValueError("its sha256 does not match")
    return dict(found)


def _hash(text: bytes) -> str:
    from hashlib import sha256

    return sha256(text).hexdigest()


def _with_digest(text: bytes, old: str, new: str) -> bytes:
    """The digest is the last thing in the document."""
    before, found, after = text.rpartition(old.encode(errors="surrogatepass"))
    return before + new.encode() + after if found else b""
