"""The three streams: a session's stored events, one turn in the form of the AI SDK, and the page's view."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

import orjson

from agh.core.events import MARKER_CREATED
from agh.core.html.page import fragment
from agh.core.updates import event_of
from agh.errors import AghError, KeeperDied, PromptDropped
from agh.store.reader import Reader
from agh.store.schema import LANDMARK
from agh.store.views import session_view, stop_notice
from agh_serve import threads
from agh_serve.errors import ServerEnding
from agh_serve.feed import Feeds
from agh_serve.sheet import Sheet
from agh_serve.ui_stream import DONE, UIStream, encode

COMMENT = b": keep-alive\n\n"
RENDER_EVERY = 0.08
AT_ONCE = 40
_HEAVY = ("acp_caps", "offers", "mcp_servers", "auth_methods", "launch", "permission_rules")


async def events(
    feeds: Feeds, directory: str, after: int, types: frozenset[str]
) -> AsyncGenerator[bytes, None]:
    """Every stored row after a sequence, then those that come, then one object that says how it ended."""
    yield COMMENT
    try:
        async with aclosing(feeds.batches(directory, after)) as batches:
            async for _, found in batches:
                frames = [item.frame for item in found if not types or item.row.type in types]
                if frames or not found:
                    yield b"".join(frames) or COMMENT
        if not feeds.closing:
            yield _frame("session_stopped", await threads.read(stop_notice, directory))
    except AghError as error:  # the session was deleted, or its log damaged
        yield _frame("failure", {"error": error.as_dict()})


async def turn(feeds: Feeds, directory: str, receipt: dict[str, Any]) -> AsyncGenerator[bytes, None]:
    """One turn from its prompt to its end. A client that goes away does not end the turn."""
    name, turn_id = directory[directory.rfind("/") + 1 :], receipt["turn_id"]
    made = UIStream(name, turn_id)
    yield encode(made.start())
    if receipt["status"] == "cancelled":
        yield encode(made.fail(PromptDropped(name).message))
    try:
        async with aclosing(feeds.batches(directory, int(receipt["after"]))) as batches:
            async for _, found in batches:
                if made.over:
                    break
                parts: list[dict[str, Any]] = []
                for row in (item.row for item in found):
                    content = row.parsed() if row.type == MARKER_CREATED else {}
                    if content.get("kind") == "prompt_dropped" and content.get("turn") == turn_id:
                        parts += made.fail(PromptDropped(name).message)
                    elif row.turn_id in (turn_id, ""):
                        parts += made.feed(row)
                    if made.over:
                        break
                if parts or not found:
                    yield encode(parts) or COMMENT
                if made.over:
                    break
        if not made.over:
            raise ServerEnding() if feeds.closing else KeeperDied(name)
    except AghError as error:
        yield encode(made.fail(error.message))
    yield DONE


async def view(feeds: Feeds, directory: str, turns: int, start: int | None) -> AsyncGenerator[bytes, None]:
    """What the page shows: the elements of the transcript, the session's state, and what it waits for."""
    begin, earlier, until = await threads.read(_window, directory, turns, start)
    yield _frame("start", {"from": begin, "earlier": earlier})
    known: dict[str, Any] = {}
    sheet, seen, last, ready = Sheet(), -1, begin - 1, False
    try:
        async with aclosing(feeds.batches(directory, begin - 1)) as batches:
            async for feed, found in batches:
                if feed.changes != seen:
                    seen = feed.changes
                    state = await threads.read(_state, directory)
                    if state != known:
                        known = state
                        yield _frame("session", state)
                if found:
                    last = found[-1].row.sequence
                    sheet.feed(item.row for item in found)
                    if last < until:
                        continue
                    async for frame in _rendered(sheet):
                        yield frame
                if not ready and last >= until:
                    ready = True
                    yield _frame("ready", {"sequence": last})
                elif not found:
                    yield COMMENT
        if not feeds.closing:
            yield _frame("session", await threads.read(_state, directory))
            yield _frame("over", await threads.read(stop_notice, directory))
    except AghError as error:
        yield _frame("gone", {"error": error.as_dict()})


async def _rendered(sheet: Sheet) -> AsyncGenerator[bytes, None]:
    """The changed elements; a growing answer is rendered again only now and then, so that it costs little."""
    began = time.monotonic()
    while made := await threads.read(sheet.changes, AT_ONCE):
        yield _frame("elements", made)
    await asyncio.sleep(max(RENDER_EVERY, 3 * (time.monotonic() - began)))


def _window(directory: str, turns: int, start: int | None) -> tuple[int, int, int]:
    """The sequence at which to begin, how many prompts lie before it, and the newest one there is."""
    with Reader(directory) as reader:
        found = reader.fetch(
            f"SELECT sequence FROM events WHERE {LANDMARK} AND type = 'user_message' ORDER BY sequence"
        )
        asked = [sequence for (sequence,) in found]
        if start is None:
            start = asked[-turns] if turns and len(asked) > turns else 1
        return max(1, start), sum(one < start for one in asked), reader.last_sequence()


def _state(directory: str) -> dict[str, Any]:
    found = session_view(directory)
    with Reader(directory) as reader:
        waiting = reader.fetch("SELECT id, prompt FROM inputs WHERE status = 'queued' ORDER BY id")
        asked = reader.fetch(
            "SELECT p.request_id, p.action, p.resource, p.title, p.request, p.created_at, "
            f"(SELECT e.content FROM events e WHERE {LANDMARK.replace('type', 'e.type')} "
            "AND e.type = 'permission' AND e.content ->> '$.request_id' = p.request_id LIMIT 1) "
            "FROM permissions p WHERE p.status = 'pending' ORDER BY p.created_at, p.request_id"
        )
    return {
        **{key: value for key, value in found.items() if key not in _HEAVY},
        "queue": [{"id": number, "text": _said(prompt)} for number, prompt in waiting],
        "permissions": [_asked(*row) for row in asked],
    }


def _asked(
    request_id: str,
    action: str,
    resource: str | None,
    title: str | None,
    options: str,
    at: str,
    event: str | None,
) -> dict[str, Any]:
    """A request that waits, with what the agent wants to do as the transcript would show it."""
    try:
        tool = orjson.loads(event or "{}").get("raw", {}).get("params", {}).get("toolCall")
    except (orjson.JSONDecodeError, AttributeError):
        tool = None
    detail = ""
    if isinstance(tool, dict):
        _, fields = event_of({**tool, "sessionUpdate": "tool_call_update", "status": "completed"})
        detail = fragment({**fields, "role": "tool_result", "timestamp": at})
    offered = [one.get("kind") for one in orjson.loads(options) if isinstance(one, dict)]
    return {
        "request_id": request_id,
        "action": action,
        "resource": resource,
        "title": title,
        "offered": offered,
        "html": detail,
    }


def _said(prompt: str) -> str:
    blocks = orjson.loads(prompt)
    return "\n".join(block["text"] for block in blocks if isinstance(block.get("text"), str))


def _frame(event: str, value: Any) -> bytes:
    return f"event: {event}\ndata: ".encode() + orjson.dumps(value) + b"\n\n"
