"""checkpoint.json: at most one per session, replaced whole, trusted only while its seal is valid.

`of_session` derives the checkpoint of an ordinary session, with one agent, from its log.
"""

from __future__ import annotations

import os
from datetime import datetime
from typing import Any

import orjson

from agh.core.checkpoint import Checkpoint, agent, checkpoint, seal, unseal
from agh.core.events import MARKER_REDACTED
from agh.core.transcript import TRANSCRIPT_TYPES, transcript
from agh.errors import CheckpointDamaged, CheckpointMissing
from agh.home import Session, replace_private_file
from agh.store.meta import Meta
from agh.store.reader import Query, Reader
from agh.store.schema import LANDMARK

FILE = "checkpoint.json"
_MAX_ROWS = 20_000  # read from the end of the log; one message may be many rows


def write(session: Session, document: Checkpoint) -> None:
    """Seal a checkpoint and replace the session's last one with it."""
    replace_private_file(os.path.join(session, FILE), seal(document))


def read(session: Session) -> Checkpoint:
    """Read the session's checkpoint. Raise CheckpointMissing or CheckpointDamaged."""
    session_id = session.id
    try:
        with open(os.path.join(session, FILE), "rb") as file:
            return unseal(file.read())
    except FileNotFoundError:
        raise CheckpointMissing(session_id) from None
    except OSError as error:
        raise CheckpointDamaged(session_id, error.strerror) from None
    except ValueError as error:
        raise CheckpointDamaged(session_id, error) from None


def exists(session: Session) -> bool:
    """Tell whether the session has a checkpoint, damaged or not."""
    return os.path.exists(os.path.join(session, FILE))


def of_session(session: Session, metadata: Meta, depth: int, elapsed: float | None = None) -> Checkpoint:
    """Derive the checkpoint of a session from its log. `elapsed` is the live time its keeper measured."""
    with Reader(session) as reader:
        return reader.snapshot(lambda: _from_log(reader, metadata, depth, elapsed))


def _from_log(reader: Reader, metadata: Meta, depth: int, elapsed: float | None) -> Checkpoint:
    last, created_at, elapsed_in_log = paused_at(reader)
    ((spent,),) = reader.fetch("SELECT sum(cost_amount) FROM token_usage")
    ((turns,),) = reader.fetch(
        f"SELECT count(DISTINCT turn_id) FROM events WHERE {LANDMARK} AND type IN ('done', 'error')"
    )
    rows = [row for row in reader.newest(Query(types=TRANSCRIPT_TYPES), _MAX_ROWS) if row.sequence <= last]
    queued = reader.fetch("SELECT prompt, status FROM inputs WHERE status = 'queued' ORDER BY id")
    name = str(metadata.get("agent_name"))
    return checkpoint(
        metadata["id"],
        budget_spent=spent or 0.0,
        rounds_completed=turns,
        elapsed_seconds=elapsed_in_log if elapsed is None else elapsed,
        active_agents=[
            agent(
                name,
                transcript(rows)[-depth:] if depth else [],
                acp_session_id=metadata.get("acp_session_id"),
                restore=metadata.get("restore"),
            )
        ],
        pending_delegations=[
            {"target": name, "message": _prompt_text(prompt), "round": turns + number, "status": status}
            for number, (prompt, status) in enumerate(queued, 1)
        ],
        transcript_replay_depth=depth,
        last_sequence=last,
        created_at=created_at,
    )


def paused_at(reader: Reader) -> tuple[int, str, float]:
    """Return the last event a checkpoint covers, when it was made, and how many seconds the session was live.

    A pause event at the end of the log is left out: it is not part of what was paused. Its time is when the
    checkpoint was made; without one, that is the time of the last event.
    """
    last = reader.last_sequence()
    elapsed: float | None = None
    created_at: str | None = None
    for row in reader.newest(Query(types=("session_paused",)), 1):
        later = "SELECT 1 FROM events WHERE sequence > ? AND type <> ? LIMIT 1"
        if not reader.fetch(later, [row.sequence, MARKER_REDACTED]):
            last, elapsed, created_at = row.sequence - 1, row.parsed().get("elapsed_seconds"), row.timestamp
    starts = reader.fetch(
        "SELECT timestamp FROM events WHERE sequence = (SELECT coalesce(max(sequence), 1) FROM events "
        f"WHERE {LANDMARK} AND type = 'session_resumed')"
    )
    ends = reader.fetch("SELECT timestamp FROM events WHERE sequence = ?", [last])
    if not ends:
        return 0, "", elapsed or 0.0
    if elapsed is None:
        elapsed = (datetime.fromisoformat(ends[0][0]) - datetime.fromisoformat(starts[0][0])).total_seconds()
    return last, created_at or ends[0][0], max(0.0, elapsed)


def _prompt_text(prompt: str) -> str:
    """Return the text of a stored prompt; a block that is not text is shown as its type."""
    blocks: Any = orjson.loads(prompt)
    return "\n".join(str(block.get("text") or f"[{block.get('type')}]") for block in blocks)
