"""The routes that read: each answers what the command of the same name prints as JSON."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, Callable
from typing import Any

from starlette.responses import Response

from agh.console.when import moment
from agh.core.events import envelopes
from agh.core.history import turn_json, turns
from agh.core.recap import DEFAULT_LIMIT
from agh.core.redact import redactor
from agh.errors import Usage
from agh.keeper import client
from agh.sessions.listing import select
from agh.sessions.permissions import requests
from agh.store.reader import Query, Reader
from agh.store.views import messages, recap_view, status_view
from agh_serve import streams, threads
from agh_serve.answers import document, stream, tagged, text_document
from agh_serve.calls import Call
from agh_serve.feed import place_of

DEFAULT_TURNS = 20
Page = Callable[[int], tuple[list[str], int]]  # the lines after a sequence, and the last one's sequence


async def list_sessions(call: Call) -> Response:
    given = call.given
    wanted = {key: given.get(key) for key in ("state", "badge", "agent")}
    found = await threads.read(
        select,
        everything=given.get("all", False),
        resumable=given.get("resumable", False),
        workspace=call.workspace or given.get("workspace"),
        **wanted,
    )
    return tagged(call.request, {"sessions": found[: given.get("limit")]})


async def show_session(call: Call) -> Response:
    return document({"session": await threads.act(status_view, call.directory, client.answers)})


async def list_events(call: Call) -> Response:
    given = call.given
    query = Query(
        tuple(given.get("type", ())),
        _either(given, "agent", "agent_name"),
        _either(given, "turn", "turn_id"),
        moment(given["since"], "since") if "since" in given else None,
        given.get("where"),
    )
    after, last = _either(given, "after", "after_sequence") or 0, _either(given, "last", "limit")
    place = await threads.read(place_of, call.directory)

    def page(after: int) -> tuple[list[str], int]:
        with Reader(call.directory) as reader:
            if last is not None:
                rows = reader.newest(query, last, after) if last else []
            else:
                rows = reader.page(query, after, reader.last_sequence())
        return list(envelopes(rows, *place)), rows[-1].sequence if rows else 0

    first = await threads.read(page, after)
    if last is not None:
        return text_document('{"events":[' + ",".join(first[0]) + "]}")
    return stream(_pages(page, *first), "application/json")


async def _pages(page: Page, lines: list[str], after: int) -> AsyncGenerator[bytes, None]:
    """One document, page by page: a long log is never held whole."""
    opening = '{"events":['
    while lines:
        yield (opening + ",\n".join(lines)).encode()
        opening = ",\n"
        lines, after = await threads.read(page, after)
    yield b"]}" if opening == ",\n" else b'{"events":[]}'


async def list_turns(call: Call) -> Response:
    last = _either(call.given, "last", "limit")

    def read() -> str:
        place = place_of(call.directory)
        with Reader(call.directory) as reader:
            found = turns(reader.rows())
        found = found if last is None else found[len(found) - min(last, len(found)) :]
        return '{"turns":[' + ",".join(turn_json(turn, place) for turn in found) + "]}"

    return text_document(await threads.read(read))


async def show_transcript(call: Call) -> Response:
    return document({"messages": await threads.read(messages, call.directory)})


async def show_recap(call: Call) -> Response:
    limit = call.given.get("limit", DEFAULT_LIMIT)
    return document({"recap": await threads.read(recap_view, call.directory, limit, redactor(os.environ))})


async def list_permissions(call: Call) -> Response:
    found = await threads.read(requests, call.directory, call.given.get("all", False))
    return document({"permissions": found})


async def follow_events(call: Call) -> Response:
    told = call.request.headers.get("last-event-id")
    if told is not None and (not told.isascii() or not told.isdecimal() or len(told) > 18):
        raise Usage(f"Last-Event-ID: {told!r} is not a sequence number", hint="send the id of the last event")
    after = int(told) if told is not None else _either(call.given, "after", "after_sequence") or 0
    await threads.read(_readable, call.directory)
    return stream(streams.events(call.feeds, call.directory, after, frozenset(call.given.get("type", ()))))


async def follow_view(call: Call) -> Response:
    await threads.read(_readable, call.directory)
    turns = call.given.get("turns", DEFAULT_TURNS)
    return stream(streams.view(call.feeds, call.directory, turns, call.given.get("from")))


def _readable(directory: str) -> None:
    """Name what is wrong with a log before a stream has begun."""
    place_of(directory)
    Reader(directory).close()


def _either(given: dict[str, Any], *names: str) -> Any:
    """A parameter that has two names."""
    found = [given[name] for name in names if name in given]
    if len(found) > 1:
        raise Usage(f"{' and '.join(names)} are the same", hint="give one of them")
    return found[0] if found else None
