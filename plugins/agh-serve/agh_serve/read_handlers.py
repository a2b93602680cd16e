"""The handlers of the routes that read. Each returns what the command of the same name prints as JSON."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, Callable
from typing import Any

from starlette.responses import Response

from agh.adapters.redactions import redactor_for
from agh.console.when import parse_time
from agh.core.events import envelopes
from agh.core.history import turn_json, turns
from agh.core.recap import DEFAULT_LIMIT
from agh.errors import Usage
from agh.home import Session
from agh.keeper import client
from agh.sessions.listing import select_page
from agh.sessions.requests.permissions import requests
from agh.sessions.requests.questions import questions
from agh.store import meta
from agh.store.reader import Query, Reader
from agh.store.views import messages, recap_view, status_view
from agh_serve import streams, threads
from agh_serve.broadcast import read_envelope_fields
from agh_serve.dispatch import Call
from agh_serve.responses import (
    respond_unless_cached,
    respond_with_json,
    respond_with_json_text,
    respond_with_stream,
)

DEFAULT_TURNS, DEFAULT_SESSIONS = 20, 100
ReadPage = Callable[[int], tuple[list[str], int]]  # the lines after a sequence, and the last one's sequence


async def list_sessions(call: Call) -> Response:
    params = call.params
    if params.get("why") and not params.get("resumable"):
        raise Usage("why works only with resumable", hint="send resumable=true&why=true")
    views, following = await threads.run_read(
        select_page,
        params.get("limit", DEFAULT_SESSIONS),
        params.get("cursor"),
        params.get("search"),
        everything=params.get("all", False),
        resumable=params.get("resumable", False),
        why=params.get("why", False),
        workspace=call.workspace or params.get("workspace"),
        state=params.get("state"),
        badge=_get_either(params, "status", "badge"),
        agent=params.get("agent"),
    )
    page = {"sessions": views} if following is None else {"sessions": views, "next": following}
    return respond_unless_cached(call.request, page)


async def show_session(call: Call) -> Response:
    view = await threads.run_action(status_view, call.session, client.answers)
    return respond_with_json({"session": view})


async def list_events(call: Call) -> Response:
    params = call.params
    query = _event_query(params)
    start, last = _get_either(params, "after", "after_sequence") or 0, _get_either(params, "last", "limit")
    envelope_fields = await threads.run_read(read_envelope_fields, call.session)

    def read_page(after: int) -> tuple[list[str], int]:
        with Reader(call.session) as reader:
            if last is not None:
                rows = reader.newest(query, last, after) if last else []
            else:
                rows = reader.page(query, after, reader.last_sequence())
        return list(envelopes(rows, *envelope_fields)), rows[-1].sequence if rows else 0

    lines, after = await threads.run_read(read_page, start)
    if last is not None:
        return respond_with_json_text('{"events":[' + ",".join(lines) + "]}")
    return respond_with_stream(_stream_pages(read_page, lines, after), "application/json")


async def _stream_pages(read_page: ReadPage, lines: list[str], after: int) -> AsyncGenerator[bytes, None]:
    """Stream one JSON document page by page, so that a long log is never in memory as a whole."""
    separator = '{"events":['
    while lines:
        yield (separator + ",\n".join(lines)).encode()
        separator = ",\n"
        lines, after = await threads.run_read(read_page, after)
    yield b"]}" if separator == ",\n" else b'{"events":[]}'


def _event_query(params: dict[str, Any]) -> Query:
    """Return which events the parameters ask for."""
    return Query(
        tuple(params.get("type", ())),
        _get_either(params, "agent", "agent_name"),
        _get_either(params, "turn", "turn_id"),
        parse_time(params["since"], "since") if "since" in params else None,
        params.get("where"),
    )


async def list_turns(call: Call) -> Response:
    """List the turns of the events asked for; `last` are the newest of these turns."""
    query, last = _event_query(call.params), _get_either(call.params, "last", "limit")
    after = _get_either(call.params, "after", "after_sequence") or 0

    def read() -> str:
        envelope_fields = read_envelope_fields(call.session)
        with Reader(call.session) as reader:
            history = turns(reader.rows(query, after))
        history = history if last is None else history[len(history) - min(last, len(history)) :]
        return '{"turns":[' + ",".join(turn_json(turn, envelope_fields) for turn in history) + "]}"

    return respond_with_json_text(await threads.run_read(read))


async def show_transcript(call: Call) -> Response:
    return respond_with_json({"messages": await threads.run_read(messages, call.session)})


def _recap(session: Session, limit: int) -> dict[str, Any]:
    hide = redactor_for(os.environ, meta.read(session)["workspace_path"])
    return recap_view(session, limit, hide)


async def show_recap(call: Call) -> Response:
    limit = call.params.get("limit", DEFAULT_LIMIT)
    view = await threads.run_read(_recap, call.session, limit)
    return respond_with_json({"recap": view})


async def list_permissions(call: Call) -> Response:
    include_decided = call.params.get("all", False)
    return respond_with_json({"permissions": await threads.run_read(requests, call.session, include_decided)})


async def list_questions(call: Call) -> Response:
    include_answered = call.params.get("all", False)
    return respond_with_json({"questions": await threads.run_read(questions, call.session, include_answered)})


async def follow_events(call: Call) -> Response:
    last_id = call.request.headers.get("last-event-id")
    if last_id is not None and (not last_id.isascii() or not last_id.isdecimal() or len(last_id) > 18):
        raise Usage(
            f"Last-Event-ID: {last_id!r} is not a sequence number",
            hint="send the id of the last event you received",
        )
    after = int(last_id) if last_id is not None else _get_either(call.params, "after", "after_sequence") or 0
    types = frozenset(call.params.get("type", ()))
    await threads.run_read(_check_readable, call.session)
    return respond_with_stream(streams.stream_events(call.broadcasts, call.session, after, types))


async def follow_view(call: Call) -> Response:
    await threads.run_read(_check_readable, call.session)
    turn_count, start = call.params.get("turns", DEFAULT_TURNS), call.params.get("from")
    return respond_with_stream(streams.stream_view(call.broadcasts, call.session, turn_count, start))


def _check_readable(session: Session) -> None:
    """Raise what is wrong with the session while the response can still be an error, not a stream."""
    read_envelope_fields(session)
    Reader(session).close()


def _get_either(params: dict[str, Any], *names: str) -> Any:
    """Return a parameter that has two names, or None."""
    values = [params[name] for name in names if name in params]
    if len(values) > 1:
        raise Usage(f"{' and '.join(names)} mean the same", hint="send only one of them")
    return values[0] if values else None
