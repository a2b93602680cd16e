"""The routes that do something: each does what the command of the same name does, with the same errors."""

from __future__ import annotations

import socket
from typing import Any

from starlette.responses import Response

from agh.console.limits import limits
from agh.console.when import span
from agh.errors import Usage
from agh.keeper import client
from agh.sessions.new import create
from agh.sessions.permissions import decide as decide_request
from agh.sessions.prompt import send
from agh.sessions.resume import resume
from agh.sessions.stop import stop_session
from agh.store.views import session_view
from agh_serve import streams, threads
from agh_serve.answers import document, stream
from agh_serve.calls import Call
from agh_serve.ui_stream import HEADERS

_LIMITS = ("max_cost", "max_turns", "max_time")


async def new_session(call: Call) -> Response:
    given = dict(call.given)
    if call.workspace is not None:
        if "workspace" in given:
            raise Usage("the workspace is in the path already", hint="leave the member workspace out")
        given["workspace"] = call.workspace
    if "worktree" in given:
        given["branch"] = given.pop("worktree")
    bounds = limits(*(given.pop(name, None) for name in _LIMITS))
    asked = {name: given.pop(name) for name in ("mode", "model") if name in given}
    asked |= given.pop("options", {})
    directory, _ = await threads.act(create, options=asked, limits=bounds, **given)
    return document({"session": await threads.read(session_view, directory)}, 201)


async def resume_session(call: Call) -> Response:
    """Make it live; the lease is taken unless `attach` is false."""
    given = dict(call.given)
    lease = _lease(given) if given.pop("attach", True) else None
    bounds = limits(*(given.pop(name, None) for name in _LIMITS))
    done = await threads.act(
        resume, call.directory, given.pop("attach_only", False), lease, limits=bounds, **_intent(given)
    )
    view = await threads.read(session_view, call.directory)
    return document({"session": view, "attach": done.attach, "restore": done.restore})


async def attach_session(call: Call) -> Response:
    given = dict(call.given)
    done = await threads.act(resume, call.directory, True, _lease(given))
    view = await threads.read(session_view, call.directory)
    return document({"session": view, "attach": done.attach})


async def detach_session(call: Call) -> Response:
    holder = call.given.get("attached_to") or _holder()
    done = await threads.act(
        client.call, call.directory, "detach", holder=holder, force=call.given.get("force", False)
    )
    return document({"detach": done})


async def send_prompt(call: Call) -> Response:
    """A turn as it goes on, or with `detach` the receipt of a prompt that is safely queued."""
    blocks = [{"type": "text", "text": said(call.given)}]
    options = {"mode": call.given.get("mode", "queue"), "idempotency_key": call.given.get("idempotency_key")}
    receipt, _ = await threads.act(send, call.directory, blocks, **options)
    if call.given.get("detach"):
        return document({"input": receipt}, 202)
    return stream(streams.turn(call.feeds, call.directory, receipt), **HEADERS)


async def interrupt_turn(call: Call) -> Response:
    grace = call.given.get("grace")
    done = await threads.act(
        client.call,
        call.directory,
        "cancel",
        grace=None if grace is None else span(grace, "grace"),
        turn_id=call.given.get("turn_id"),
    )
    return document({"turn": done})


async def decide(call: Call) -> Response:
    """Allow or deny what the agent asks for: the request that is named, or the oldest."""
    verdict = call.given.get("decision", "allow") + ("_always" if call.given.get("always") else "")
    request_id = call.given.get("request_id")
    done = await threads.act(decide_request, call.directory, request_id, verdict, by="http")
    return document({"permission": done})


async def stop(call: Call) -> Response:
    return document({"session": await threads.act(stop_session, call.directory)})


def said(given: dict[str, Any]) -> str:
    """The prompt's text: `prompt`, or the last message of an AI SDK client."""
    if ("prompt" in given) == ("messages" in given):
        raise Usage("give prompt, or messages", hint='for example {"prompt": "go on"}')
    text = given["prompt"] if "prompt" in given else _last_message(given["messages"])
    if not text.strip():
        raise Usage("the prompt is empty")
    return str(text)


def _last_message(messages: list[dict[str, Any]]) -> str:
    last = messages[-1] if messages else {}
    parts = last.get("parts", [])
    if last.get("role") != "user" or not isinstance(parts, list):
        raise Usage("the last message is not the user's", hint="send a message with role user and its parts")
    texts = []
    for part in parts:
        kind = part.get("type") if isinstance(part, dict) else None
        if kind != "text" or not isinstance(part.get("text"), str):
            raise Usage(f"a prompt cannot have a part of type {kind!r}", hint="send parts of type text")
        texts.append(part["text"])
    return "\n".join(texts)


def _holder() -> str:
    return f"http:{socket.gethostname()}"


def _lease(given: dict[str, Any]) -> dict[str, Any]:
    return {
        "holder": given.pop("attached_to", None) or _holder(),
        "ttl": span(given.pop("ttl", "15m"), "ttl"),
        "steal": given.pop("steal", False),
    }


def _intent(given: dict[str, Any]) -> dict[str, Any]:
    return {name: given[name] for name in ("agent", "fresh", "require_context") if name in given}
