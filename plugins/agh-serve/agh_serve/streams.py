"""The three streams: a session's events, one turn in the form of the AI SDK, and the page's view."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

import orjson

from agh.core.events import MARKER_CREATED
from agh.errors import AghError, KeeperDied, PromptDropped
from agh.home import Session
from agh.sessions.requests.permissions import requests
from agh.sessions.requests.questions import questions
from agh.store.reader import Reader
from agh.store.schema import LANDMARK
from agh.store.views import session_view, stop_notice
from agh_serve import threads
from agh_serve.broadcast import Broadcasts
from agh_serve.errors import ServerEnding
from agh_serve.live_transcript import LiveTranscript
from agh_serve.ui_stream import DONE, UIStream, encode_parts

COMMENT = b": keep-alive\n\n"
RENDER_EVERY = 0.08
ELEMENTS_PER_FRAME = 40
# Parts of a session's view that are large and that the page does not show.
_OMITTED = ("acp_caps", "offers", "mcp_servers", "auth_methods", "launch", "permission_rules")


async def stream_events(
    broadcasts: Broadcasts, session: Session, after: int, types: frozenset[str]
) -> AsyncGenerator[bytes, None]:
    """Stream every stored event after a sequence, then new ones, then one object that says how it ended."""
    yield COMMENT
    try:
        async with aclosing(broadcasts.stream_batches(session, after)) as batches:
            async for _, batch in batches:
                frames = [framed.frame for framed in batch if not types or framed.row.type in types]
                if frames or not batch:
                    yield b"".join(frames) or COMMENT
        if not broadcasts.closing:
            yield _encode_frame("session_stopped", await threads.run_read(stop_notice, session))
    except AghError as error:  # the session was deleted, or its log is damaged
        yield _encode_frame("failure", {"error": error.as_dict()})


async def stream_turn(
    broadcasts: Broadcasts, session: Session, receipt: dict[str, Any]
) -> AsyncGenerator[bytes, None]:
    """Stream one turn from its prompt to its end. The turn continues if the client disconnects."""
    session_id, turn_id = session.id, receipt["turn_id"]
    ui_stream = UIStream(session_id, turn_id)
    yield encode_parts(ui_stream.start())
    if receipt["status"] == "cancelled":
        yield encode_parts(ui_stream.fail(PromptDropped(session_id).message))
    try:
        async with aclosing(broadcasts.stream_batches(session, int(receipt["after"]))) as batches:
            async for _, batch in batches:
                if ui_stream.ended:
                    break
                parts: list[dict[str, Any]] = []
                for row in (framed.row for framed in batch):
                    content = row.parsed() if row.type == MARKER_CREATED else {}
                    if content.get("kind") == "prompt_dropped" and content.get("turn") == turn_id:
                        parts += ui_stream.fail(PromptDropped(session_id).message)
                    elif row.turn_id in (turn_id, ""):
                        parts += ui_stream.convert(row)
                    if ui_stream.ended:
                        break
                if parts or not batch:
                    yield encode_parts(parts) or COMMENT
                if ui_stream.ended:
                    break
        if not ui_stream.ended:
            raise ServerEnding() if broadcasts.closing else KeeperDied(session_id)
    except AghError as error:
        yield encode_parts(ui_stream.fail(error.message))
    yield DONE


async def stream_view(
    broadcasts: Broadcasts, session: Session, turn_count: int, start: int | None
) -> AsyncGenerator[bytes, None]:
    """Stream what the page shows: the transcript's elements, the session's state, its queue and requests."""
    first, earlier_prompts, newest = await threads.run_read(_find_start, session, turn_count, start)
    yield _encode_frame("start", {"from": first, "earlier": earlier_prompts})
    sent_state: dict[str, Any] = {}
    meta_changes, last, is_ready = -1, first - 1, False
    transcript = LiveTranscript()
    try:
        async with aclosing(broadcasts.stream_batches(session, first - 1)) as batches:
            async for broadcast, batch in batches:
                if broadcast.meta_changes != meta_changes:
                    meta_changes = broadcast.meta_changes
                    state = await threads.run_read(_read_state, session)
                    if state != sent_state:
                        sent_state = state
                        yield _encode_frame("session", state)
                if batch:
                    last = batch[-1].row.sequence
                    transcript.add_rows(framed.row for framed in batch)
                    if last < newest:
                        continue
                    async for frame in _render_changes(transcript):
                        yield frame
                if not is_ready and last >= newest:
                    is_ready = True
                    yield _encode_frame("ready", {"sequence": last})
                elif not batch:
                    yield COMMENT
        if not broadcasts.closing:
            yield _encode_frame("session", await threads.run_read(_read_state, session))
            yield _encode_frame("over", await threads.run_read(stop_notice, session))
    except AghError as error:
        yield _encode_frame("gone", {"error": error.as_dict()})


async def _render_changes(transcript: LiveTranscript) -> AsyncGenerator[bytes, None]:
    """Stream the changed elements, then pause: a message that grows is not rendered again for every chunk."""
    started = time.monotonic()
    while elements := await threads.run_read(transcript.take_changes, ELEMENTS_PER_FRAME):
        yield _encode_frame("elements", elements)
    await asyncio.sleep(max(RENDER_EVERY, 3 * (time.monotonic() - started)))


def _find_start(session: Session, turn_count: int, start: int | None) -> tuple[int, int, int]:
    """Return the sequence to start at, the number of prompts before it, and the newest sequence."""
    with Reader(session) as reader:
        rows = reader.fetch(
            f"SELECT sequence FROM events WHERE {LANDMARK} AND type = 'user_message' ORDER BY sequence"
        )
        prompts = [sequence for (sequence,) in rows]
        if start is None:
            start = prompts[-turn_count] if turn_count and len(prompts) > turn_count else 1
        return max(1, start), sum(sequence < start for sequence in prompts), reader.last_sequence()


def _read_state(session: Session) -> dict[str, Any]:
    view = session_view(session)
    with Reader(session) as reader:
        queued = reader.fetch("SELECT id, prompt FROM inputs WHERE status = 'queued' ORDER BY id")
    return {
        **{key: value for key, value in view.items() if key not in _OMITTED},
        "queue": [{"id": number, "text": _join_text(prompt)} for number, prompt in queued],
        "permissions": requests(session, everything=False),
        "questions": questions(session, everything=False),
    }


def _join_text(prompt: str) -> str:
    blocks = orjson.loads(prompt)
    return "\n".join(block["text"] for block in blocks if isinstance(block.get("text"), str))


def _encode_frame(event: str, value: Any) -> bytes:
    return f"event: {event}\ndata: ".encode() + orjson.dumps(value) + b"\n\n"
