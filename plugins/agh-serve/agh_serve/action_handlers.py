"""The handlers of the routes that change something. Each does what the command of the same name does."""

from __future__ import annotations

import socket
from typing import Any

from starlette.responses import Response

from agh.console.limits import parse_limits
from agh.console.when import parse_duration
from agh.errors import Usage
from agh.keeper import client
from agh.sessions.new import create
from agh.sessions.prompt import send
from agh.sessions.requests.permissions import choose_request
from agh.sessions.requests.permissions import decide as decide_request
from agh.sessions.requests.questions import answer as answer_question
from agh.sessions.requests.questions import choose_question
from agh.sessions.resume import resume
from agh.sessions.stop import stop_session
from agh.store.views import session_view
from agh_serve import streams, threads
from agh_serve.dispatch import Call
from agh_serve.responses import respond_with_json, respond_with_stream
from agh_serve.ui_stream import HEADERS

_LIMITS = ("max_cost", "max_turns", "max_time")


async def new_session(call: Call) -> Response:
    params = dict(call.params)
    if call.workspace is not None:
        if "workspace" in params:
            raise Usage("the URL already names the workspace", hint="leave out workspace")
        params["workspace"] = call.workspace
    if "worktree" in params:
        params["branch"] = params.pop("worktree")
    session_limits = _pop_limits(params)
    options = {name: params.pop(name) for name in ("mode", "model") if name in params}
    options |= params.pop("options", {})
    session, _ = await threads.run_action(create, options=options, limits=session_limits, **params)
    return respond_with_json({"session": await threads.run_read(session_view, session)}, 201)


async def resume_session(call: Call) -> Response:
    """Make the session live, and take its lease unless `attach` is false."""
    params = dict(call.params)
    lease = _pop_lease(params) if params.pop("attach", True) else None
    session_limits = _pop_limits(params)
    attach_only = params.pop("attach_only", False)
    intent = {name: params[name] for name in ("agent", "fresh", "require_context") if name in params}
    resumed = await threads.run_action(
        resume, call.session, attach_only, lease, limits=session_limits, **intent
    )
    view = await threads.run_read(session_view, call.session, lease and lease["holder"])
    return respond_with_json({"session": view, "attach": resumed.attach, "restore": resumed.restore})


async def attach_session(call: Call) -> Response:
    lease = _pop_lease(dict(call.params))
    resumed = await threads.run_action(resume, call.session, True, lease)
    view = await threads.run_read(session_view, call.session, lease["holder"])
    return respond_with_json({"session": view, "attach": resumed.attach})


async def detach_session(call: Call) -> Response:
    holder = call.params.get("attached_to") or _default_holder()
    receipt = await threads.run_action(
        client.call, call.session, "detach", holder=holder, force=call.params.get("force", False)
    )
    return respond_with_json({"detach": receipt})


async def send_prompt(call: Call) -> Response:
    """Stream the turn, or with `detach` return the receipt as soon as the prompt is safely queued."""
    blocks = [{"type": "text", "text": _read_prompt(call.params)}]
    options = {
        "mode": call.params.get("mode", "queue"),
        "idempotency_key": call.params.get("idempotency_key"),
    }
    receipt, _ = await threads.run_action(send, call.session, blocks, **options)
    if call.params.get("detach"):
        return respond_with_json({"input": receipt}, 202)
    return respond_with_stream(streams.stream_turn(call.broadcasts, call.session, receipt), **HEADERS)


async def interrupt_turn(call: Call) -> Response:
    grace = call.params.get("grace")
    receipt = await threads.run_action(
        client.call,
        call.session,
        "cancel",
        grace=None if grace is None else parse_duration(grace, "grace"),
        turn_id=call.params.get("turn_id"),
    )
    return respond_with_json({"turn": receipt})


async def decide(call: Call) -> Response:
    """Allow or deny the permission request with `request_id`, or the only one that waits."""
    verdict = call.params.get("decision", "allow") + ("_always" if call.params.get("always") else "")
    request = await threads.run_read(choose_request, call.session, call.params.get("request_id"))
    if digest := call.params.get("digest"):  # of what the page has shown
        request["digest"] = digest
    receipt = await threads.run_action(decide_request, call.session, request, verdict, by="http")
    return respond_with_json({"permission": receipt})


async def answer(call: Call) -> Response:
    """Answer the agent's question with `request_id`, or the only one that waits."""
    decision, content = call.params["decision"], call.params.get("content")
    if content and decision != "accepted":
        raise Usage("content is allowed only if the decision is accepted", hint="leave out content")
    question = await threads.run_read(choose_question, call.session, call.params.get("request_id"))
    receipt = await threads.run_action(answer_question, call.session, question, decision, content, by="http")
    receipt.pop("resumed", None)
    return respond_with_json({"question": receipt})


async def stop(call: Call) -> Response:
    return respond_with_json({"session": await threads.run_action(stop_session, call.session)})


def _read_prompt(params: dict[str, Any]) -> str:
    """Return the prompt's text: `prompt`, or the last message of an AI SDK client."""
    if ("prompt" in params) == ("messages" in params):
        raise Usage("give either prompt or messages", hint='for example {"prompt": "go on"}')
    text = params["prompt"] if "prompt" in params else _read_last_message(params["messages"])
    if not text.strip():
        raise Usage("the prompt is empty", hint="send some text")
    return str(text)


def _read_last_message(messages: list[dict[str, Any]]) -> str:
    last = messages[-1] if messages else {}
    parts = last.get("parts", [])
    if last.get("role") != "user" or not isinstance(parts, list):
        raise Usage(
            "the last message is not a user message with parts",
            hint='send {"role": "user", "parts": [{"type": "text", "text": "..."}]} as the last message',
        )
    texts = []
    for part in parts:
        part_type = part.get("type") if isinstance(part, dict) else None
        if part_type != "text" or not isinstance(part.get("text"), str):
            raise Usage(f"a prompt cannot have a part of type {part_type!r}", hint="send parts of type text")
        texts.append(part["text"])
    return "\n".join(texts)


def _default_holder() -> str:
    return f"http:{socket.gethostname()}"


def _pop_lease(params: dict[str, Any]) -> dict[str, Any]:
    return {
        "holder": params.pop("attached_to", None) or _default_holder(),
        "ttl": parse_duration(params.pop("ttl", "15m"), "ttl"),
        "steal": params.pop("steal", False),
    }


def _pop_limits(params: dict[str, Any]) -> dict[str, float]:
    return parse_limits(*(params.pop(name, None) for name in _LIMITS))
