"""The steps in which the agent asks its user, and what it says about the session itself."""

import json

from agh_echo.kinds import Frame, Steps
from agh_echo.memory import new_id
from agh_echo.script import fields, head
from agh_echo.steps import error_in
from agh_echo.turn import Turn

FORM: Frame = {"type": "object", "properties": {"answer": {"type": "string"}}, "required": ["answer"]}


def elicit(turn: Turn, text: str) -> Steps:
    return form(turn, json.dumps({**FORM, "title": text or "What is the answer?"}), "elicit")


def form(turn: Turn, text: str, name: str = "form") -> Steps:
    """Ask a form. The schema's title is the question."""
    schema = json.loads(text)
    params = {"mode": "form", "message": schema.pop("title", "What?"), "requestedSchema": schema}
    reply = yield turn.ask("elicitation/create", params)
    return _describe(name, reply)


def form_withdrawn(turn: Turn, text: str) -> Steps:
    """Ask a form and take it back at once."""
    params = {"mode": "form", "message": text or "Never mind?", "requestedSchema": FORM}
    request_id = turn.ask("elicitation/create", params)
    turn.loop.wire.notify("$/cancel_request", {"requestId": request_id})
    reply = yield request_id
    return _describe("form", reply)


def link(turn: Turn, text: str) -> Steps:
    """Ask to open a link; if the user agrees, what it led to is finished soon after."""
    params = _link(text)
    reply = yield turn.ask("elicitation/create", params)
    if (reply.get("result") or {}).get("action") == "accept":
        turn.loop.wire.notify("elicitation/complete", {"elicitationId": params["elicitationId"]})
    return _describe("link", reply)


def link_done(turn: Turn, text: str) -> Steps:
    """Ask to open a link, and report at once that it is no longer needed."""
    params = _link(text)
    request_id = turn.ask("elicitation/create", params)
    turn.loop.wire.notify("elicitation/complete", {"elicitationId": params["elicitationId"]})
    reply = yield request_id
    return _describe("link", reply)


def notice(turn: Turn, text: str) -> None:
    arguments, title = fields(text)
    turn.update({"sessionUpdate": "notice", "severity": "info", "title": title, **arguments})


def compact(turn: Turn, text: str) -> Steps:
    compaction = {"sessionUpdate": "compaction_update", "compactionId": new_id()}
    turn.update({**compaction, "status": "in_progress"})
    yield 0.0
    summary = {"type": "text", "text": text or "nothing worth keeping"}
    chunk = {**compaction, "sessionUpdate": "compaction_summary_chunk", "content": summary}
    turn.update(chunk)
    turn.update({**compaction, "status": "completed"})


def _link(text: str) -> Frame:
    url, message = head(text)
    return {
        "mode": "url",
        "message": message or "Open this, please.",
        "url": url,
        "elicitationId": new_id(),
    }


def _describe(name: str, reply: Frame) -> str:
    result = reply.get("result") or {}
    return f"{name}: {error_in(reply) or result['action']} {json.dumps(result.get('content') or {})}"


STEPS = {
    step.__name__.replace("_", "-"): step
    for step in (elicit, form, form_withdrawn, link, link_done, notice, compact)
}
