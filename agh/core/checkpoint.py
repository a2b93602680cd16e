"""A checkpoint: what a paused session needs to continue, as one sealed JSON document. Pure.

It is derived from the log and can be rebuilt from it; the same rows give the same bytes. The seal is a
SHA-256 of the whole text, computed with zeros in place of the digest itself, so a change to any bit of it
is detected.
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
    """Return the document, not yet sealed."""
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
    """Describe one agent of the session: its identity, and the tail of its own conversation only."""
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


def seal(document: Checkpoint) -> bytes:
    """Return the document as it is stored, with its digest."""
    blank = orjson.dumps(
        {**document, "sha256": _BLANK}, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE
    )
    return _with_digest(blank, _BLANK, _hash(blank))


def unseal(text: bytes) -> Checkpoint:
    """Parse a stored document; raise ValueError with the reason if it is damaged."""
    try:
        document = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise ValueError(f"not JSON: {error}") from None
    digest = document.get("sha256") if isinstance(document, dict) else None
    if not isinstance(digest, str) or _hash(_with_digest(text, digest, _BLANK)) != digest:
        raise ValueError("its sha256 does not match")
    return dict(document)


def _hash(text: bytes) -> str:
    from hashlib import sha256

    return sha256(text).hexdigest()


def _with_digest(text: bytes, old: str, new: str) -> bytes:
    """Replace the digest, which is the last field of the document; return nothing if it is not there."""
    before, digest, after = text.rpartition(old.encode(errors="surrogatepass"))
    return before + new.encode() + after if digest else b""
