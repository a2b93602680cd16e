"""The verb `prompt`: queue an input, acknowledge it, and start its turn if the session is idle.

Promises: an input is on disk before it is acknowledged; an input that is sent again under its key is not
queued again.
"""

from __future__ import annotations

import os
from typing import Any

from agh.core.events import marker
from agh.core.prompt import check_size
from agh.errors import KeyConflict, QueueFull, SessionStopping, Usage
from agh.keeper.server import Answer
from agh.keeper.session import Live
from agh.keeper.turns import turn
from agh.keeper.turns.cancel import ask_to_cancel
from agh.store import inputs
from agh.store.inputs import Input
from agh.store.schema import LANDMARK

MODES = ("queue", "interrupt", "steer")
_MARKERS = {
    "queue": ("prompt_queued", "the session is busy; the prompt is queued"),
    "slot": ("prompt_queued", "the agent is waiting for a free slot in its place; the prompt is queued"),
    "steer": ("prompt_steered", "the prompt is sent when the current tool call finishes"),
    "interrupt": ("prompt_interrupted", "the running turn was cancelled for this prompt"),
}


def accept(live: Live, request: dict[str, Any], answer: Answer) -> None:
    """Acknowledge an input once it is on disk, and start its turn if none is running."""
    if live.is_ending:
        raise SessionStopping(live.session_id)
    prompt, mode, key = _read_request(live, request)
    log = live.log
    earlier = inputs.by_key(log.db, key) if key else None
    if earlier is not None:
        if earlier.prompt != prompt:
            raise KeyConflict(live.session_id, key)
        answer(_receipt(live, earlier, after=_sequence_before(live, earlier), repeated=True))
        return
    running, parked = live.turns.current is not None or live.turns.finishing, live.meta.get("resumes_at")
    interrupts = mode == "interrupt" and bool(running or parked)
    busy = running or not live.ready or (bool(parked) and not interrupts)
    cap = live.settings["session.queue_cap"]
    if busy and not interrupts and inputs.count_queued(log.db) >= cap:
        raise QueueFull(live.session_id, cap)
    after = log.last_sequence
    with log.batch():
        if interrupts:
            _drop_queued(live)
            live.meta["resumes_at"] = live.meta["limited"] = None
        input = inputs.add(
            log.db,
            generation=inputs.generation(log.db) + interrupts,
            mode=mode,
            prompt=prompt,
            turn_id="turn-" + os.urandom(6).hex(),
            key=key,
            retries=int(request.get("retries") or 0),
            park=bool(request.get("park")),
        )
        if request.get("attended"):
            live.turns.attended.add(input.turn_id)
        if not busy:
            turn.start(live, input)
        else:
            log.add(marker(*_MARKERS[mode if live.ready else "slot"], turn=input.turn_id))
        log.then(lambda: answer(_receipt(live, input, after=after)))
        if not busy:
            log.then(lambda: turn.send(live, input))
    if interrupts and running:
        ask_to_cancel(live)


def _read_request(live: Live, request: dict[str, Any]) -> tuple[list[dict[str, Any]], str, str | None]:
    """Return the prompt, its mode and its idempotency key, or refuse the request."""
    prompt, mode, key = request["prompt"], str(request.get("mode") or "queue"), request.get("idempotency_key")
    if mode not in MODES:
        raise Usage(f"the mode {mode!r} is not one of {', '.join(MODES)}")
    if not isinstance(prompt, list) or not isinstance(key, str | None):
        raise ValueError("a prompt must be a list of content blocks, its key a string")
    check_size(prompt, live.settings["session.input_bytes"])
    return prompt, mode, key


def _sequence_before(live: Live, input: Input) -> int:
    """Return the last sequence before the input's turn, or the newest if it has not started."""
    ((first,),) = live.log.db.execute(
        f"SELECT min(sequence) FROM events WHERE {LANDMARK} AND turn_id = ?", [input.turn_id]
    ).fetchall()
    return live.log.last_sequence if first is None else first - 1


def _drop_queued(live: Live) -> None:
    """Inside a batch: cancel what was queued before an interrupt."""
    for dropped in inputs.queued(live.log.db):
        inputs.set_status(live.log.db, dropped.id, "cancelled", "dropped by an interrupt")
        summary = "the queued prompt was dropped, because another prompt interrupted the session"
        live.log.add(marker("prompt_dropped", summary, turn=dropped.turn_id))


def _receipt(live: Live, input: Input, *, after: int, repeated: bool = False) -> dict[str, Any]:
    running = live.turns.current_id == input.turn_id
    return {
        "input_id": input.id,
        "turn_id": input.turn_id,
        "status": "dispatching" if running else input.status,
        "after": after,
        "repeated": repeated,
        "resumes_at": None if running else live.meta.get("resumes_at"),
        "waits_for_slot": live.agent.waits_for_slot,
    }
