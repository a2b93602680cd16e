"""checkpoint.json: at most one per session, replaced whole, believed only while its seal holds.

`of_session` derives the checkpoint of an ordinary session, with one agent, from its log.
"""

from __future__ import annotations

import os
from datetime import datetime
from typing import Any

import orjson

from agh.core.checkpoint import Checkpoint, agent, checkpoint, seal, unseal
from agh.core.transcript import TRANSCRIPT_TYPES, transcript
from agh.errors import CheckpointDamaged, CheckpointMissing
from agh.store.meta import Meta, replace_file
from agh.store.reader import Query, Reader
from agh.store.schema import LANDMARK

FILE = "checkpoint.json"
_ROWS_READ = 20_000  # of the log's end: chunks of a message are rows, a tail is made of messages


def write(directory: str, made: Checkpoint) -> None:
    replace_file(directory, FILE, seal(made))


def read(directory: str) -> Checkpoint:
    session_id = os.path.basename(directory)
    try:
        with open(os.path.join(directory, FILE), "rb") as file:
            return unseal(file.read())
    except FileNotFoundError:
        raise CheckpointMissing(session_id) from None
    except OSError as error:
        raise CheckpointDamaged(session_id, error.strerror) from None
    except ValueError as error:
        raise CheckpointDamaged(session_id, error) from None


def of_session(directory: str, stored: Meta, depth: int, elapsed: float | None = None) -> Checkpoint:
    """The checkpoint of a session as its log stands; `elapsed` is what the clock of its keeper says."""
    with Reader(directory) as reader:
        return reader.snapshot(lambda: _of_log(reader, stored, depth, elapsed))


def _of_log(reader: Reader, stored: Meta, depth: int, elapsed: float | None) -> Checkpoint:
    last, created_at, told = paused_at(reader)
    ((spent,),) = reader.fetch("SELECT sum(cost_amount) FROM token_usage")
    ((turns,),) = reader.fetch(
        f"SELECT count(DISTINCT turn_id) FROM events WHERE {LANDMARK} AND type IN ('done', 'error')"
    )
    rows = [row for row in reader.newest(Query(types=TRANSCRIPT_TYPES), _ROWS_READ) if row.sequence <= last]
    waiting = reader.fetch("SELECT prompt, status FROM inputs WHERE status = 'queued' ORDER BY id")
    name = str(stored.get("agent_name"))
    return checkpoint(
        stored["id"],
        budget_spent=spent or 0.0,
        rounds_completed=turns,
        elapsed_seconds=told if elapsed is None else elapsed,
        active_agents=[
            agent(
                name,
                transcript(rows)[-depth:] if depth else [],
                acp_session_id=stored.get("acp_session_id"),
                restore=stored.get("restore"),
            )
        ],
        pending_delegations=[
            {"target": name, "message": _text(prompt), "round": turns + number, "status": status}
            for number, (prompt, status) in enumerate(waiting, 1)
        ],
        transcript_replay_depth=depth,
        last_sequence=last,
        created_at=created_at,
    )


def paused_at(reader: Reader) -> tuple[int, str, float]:
    """The event up to which a checkpoint tells, its time, and for how long the session had been live.

    A pause that is on record is not part of what it paused.
    """
    last = reader.last_sequence()
    elapsed: float | None = None
    for row in reader.newest(Query(types=("session_paused",)), 1):
        if row.sequence == last:
            last, elapsed = last - 1, row.parsed().get("elapsed_seconds")
    began = reader.fetch(
        "SELECT timestamp FROM events WHERE sequence = (SELECT coalesce(max(sequence), 1) FROM events "
        f"WHERE {LANDMARK} AND type = 'session_resumed')"
    )
    ended = reader.fetch("SELECT timestamp FROM events WHERE sequence = ?", [last])
    if not ended:
        return 0, "", elapsed or 0.0
    if elapsed is None:
        elapsed = (datetime.fromisoformat(ended[0][0]) - datetime.fromisoformat(began[0][0])).total_seconds()
    return last, ended[0][0], max(0.0, elapsed)


def _text(prompt: str) -> str:
    blocks: Any = orjson.loads(prompt)
    return "\n".join(str(block.get("text") or f"[{block.get('type')}]") for block in blocks)
